package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// reliableList is the subscription of a list whose items are kept in an in-flight list on the server while they are in
// hand, so that a crash loses nothing.
type reliableList struct {
	source   broker.Source
	config   broker.Config
	base     string
	consumer string
	token    string
	address  string
	client   redis.UniversalClient
	pool     *connections // of client
	reader   *listReader
	alive    *liveness
	keeper   *listKeeper
	mover    *mover
	letters  *letterBounds
	trimmer  *trimmer // nil where everything is kept
	log      *slog.Logger
	inflight *inflight

	// deferred is the set that keeps delays: the directive's, or the list's own.
	deferred string

	stopped atomic.Bool
	// surplus: the server has more items in flight than this process knows of.
	surplus atomic.Bool

	mu sync.Mutex // guards what follows; not held over I/O
	// flights are the in-flight lists, the last one is that of new items.
	flights []*flight

	// What follows belongs to the goroutine that reads.
	ids    deliveryIDs
	unseen unseen
	// broken is until when the server may move an item for a read that blocked and ended in an error.
	broken time.Time

	// settled belongs to the goroutine that settles.
	settled settled
}

var _ broker.Subscription = (*reliableList)(nil)

// subscribeReliableList writes the liveness key and the registry of the owners, before anything is taken.
func (b *Broker) subscribeReliableList(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	config.Source.Group = "" // a list has none
	l := &reliableList{
		source: config.Source, config: config, base: base(config.Source.Key), consumer: b.consumer, token: b.token,
		address: b.Address(), client: client, pool: b.connections, log: config.Logger,
		inflight: newInflight(), ids: newDeliveryIDs(b.token), deferred: config.Source.DelaySet,
	}
	if l.deferred == "" {
		l.deferred = deferredSet(l.source.Key)
	}
	l.letters = newLetterBounds(client, config, true)
	l.trimmer = b.newTrimmer(client, config, l.letters)
	l.alive = newLiveness(client, config, l.consumer, l.token, b.liveness, l.keep)
	l.keeper = newListKeeper(l)
	l.mover = newMover(client, config, l.deferred, listMoves(client, config, l.deferred).move)
	err = l.checkPermissions(ctx)
	if err == nil {
		// What the server hands out to a process that has died comes to light within half a TTL.
		l.reader, err = newListReader(ctx, client, l.source, b.liveness/2, l.stopped.Load)
	}
	if err == nil {
		err = l.alive.open(ctx)
	}
	if err == nil {
		err = l.register(ctx)
	}
	if err != nil {
		err = fmt.Errorf("list %q at %s: %w", l.source.Key, l.address, err)
		if l.reader != nil {
			err = errors.Join(err, l.reader.close())
		}
		return nil, err
	}
	warnApart(l.log, client, b.prefix, l.source.Key, config.Source.DelaySet, config.DeadLetter)
	return l, nil
}

// Capabilities: every delay is durable, and losses are counted apart from failures.
func (l *reliableList) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		Acks: true, DelaySet: true, PacksFailures: true,
		InSteps: anyApart(l.client, l.source.Key, l.deferred, l.config.DeadLetter),
	}
}

// flight returns the in-flight list for what is taken now.
func (l *reliableList) flight() *flight {
	gaps := l.alive.gaps()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.flights)
	if n > 0 && l.flights[n-1].gaps == gaps {
		return l.flights[n-1]
	}
	if n > 0 {
		l.flights[n-1].left = time.Now()
	}
	in := newFlight(l.base, l.consumer, l.token, gaps)
	l.flights = append(l.flights, in)
	return in
}

// flown returns the in-flight lists that may hold something.
func (l *reliableList) flown() []*flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.flights)
}

// Read takes from the right, as many items as are wanted in one step, and waits where there is none (BLMOVE).
func (l *reliableList) Read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if l.stopped.Load() {
		return nil, broker.ErrClosed
	}
	began := time.Now()
	deliveries, err := l.read(ctx, want)
	if len(deliveries) > 0 && !l.alive.stoodSince(began) {
		// A process that stood still gets a reply that is as old as that: a peer may have put back what it names.
		deliveries, err = l.stillOurs(ctx, deliveries)
	}
	if err != nil {
		// The server may have given something out whose reply was lost.
		l.unseen.suspect(l.reader.block)
		if l.stopped.Load() {
			err = broker.ErrClosed
		}
	}
	return deliveries, err
}

func (l *reliableList) read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if l.surplus.Swap(false) {
		l.unseen.suspect(0)
	}
	if l.unseen.due() {
		deliveries, err := l.findUnseen(ctx, want.New)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
		l.unseen.looked()
	}
	in, began := l.flight(), time.Now()
	answer, taken, err := l.take(ctx, in, want)
	switch {
	case err != nil:
		return nil, err
	case len(taken) > 0:
		return l.handOut(in, taken), nil
	case answer == "dead":
		return nil, l.revive(ctx)
	case answer == "full":
		// What comes next has outlived an owner, and no slot is free for it.
		return nil, l.reader.pause(ctx, min(l.reader.block, backPoll), l.stopped.Load, want.Freed)
	}
	block := l.unseen.bound(l.reader.block)
	if want.Back == 0 {
		block = min(block, backPoll)
	}
	// A process that stood still since its key was seen must not take anything: it may not be in the registry any more.
	stale := func() bool { return l.stopped.Load() || time.Since(began) > l.alive.ttl/3 }
	data, err := l.reader.pop(ctx, stale, "BLMOVE", l.source.Key, in.list, "RIGHT", "LEFT", seconds(block))
	if err != nil {
		l.broken = time.Now().Add(block + unseenMargin)
		return nil, err
	}
	if taken, err = items(data); err != nil || len(taken) == 0 {
		return nil, err
	}
	if want.Back == 0 && outlived(taken[0]) {
		return nil, l.putBack(ctx, in, taken[0])
	}
	return l.handOut(in, taken), nil
}

// take moves as many items as are wanted into the in-flight list, while the liveness key stands.
func (l *reliableList) take(ctx context.Context, in *flight, want broker.Want) (answer string, taken [][]byte, err error) {
	data, err := rawRun(ctx, l.client, append(listTakeScript.args(7, l.source.Key, in.list, l.alive.key, l.base+ownersKind),
		l.token, in.member, milliseconds(l.alive.ttl), max(want.New, 1), want.Back, memberMark, lossesMark))
	if err != nil {
		return "", nil, err
	}
	if taken, err = items(data); err != nil || len(taken) == 0 {
		return "", nil, err
	}
	return string(taken[0]), taken[1:], nil
}

// handOut makes the items deliveries.
func (l *reliableList) handOut(in *flight, taken [][]byte) []*broker.Delivery {
	deliveries := l.ids.deliveries(taken)
	l.inflight.add(deliveries, in)
	return deliveries
}

// revive makes the liveness key again, which was gone. What is taken from then on goes to another in-flight list.
func (l *reliableList) revive(ctx context.Context) error {
	holder, err := l.alive.beat(ctx)
	if err == nil && holder != "" {
		err = fmt.Errorf("%w: %q is held by %s", errConsumerTaken, l.consumer, holder)
	}
	return err
}

// findUnseen hands out items that are in flight and were never seen here: the reply that named them was lost. It never does
// so while something is being taken.
func (l *reliableList) findUnseen(ctx context.Context, n int) ([]*broker.Delivery, error) {
	var deliveries []*broker.Delivery
	for _, in := range l.flown() {
		unseen, missing, err := l.inflight.look(ctx, l.client, in)
		if err != nil {
			return deliveries, err
		}
		l.lost(missing)
		if room := n - len(deliveries); len(unseen) > room {
			unseen = unseen[:room]
		}
		deliveries = append(deliveries, l.handOut(in, unseen)...)
	}
	return deliveries, nil
}

// stillOurs leaves those deliveries out that are not in flight any more. After an error it leaves out all of them: what
// there is will be found.
func (l *reliableList) stillOurs(ctx context.Context, deliveries []*broker.Delivery) ([]*broker.Delivery, error) {
	gone := make(map[string]bool)
	for _, in := range l.flown() {
		_, missing, err := l.inflight.look(ctx, l.client, in)
		if err != nil {
			for _, d := range deliveries {
				l.inflight.forget(d.ID)
			}
			return nil, err
		}
		for _, id := range missing {
			gone[id] = true
		}
		l.lost(missing)
	}
	return slices.DeleteFunc(deliveries, func(d *broker.Delivery) bool {
		if gone[d.ID] {
			l.inflight.forget(d.ID)
		}
		return gone[d.ID]
	}), nil
}

// lost tells the engine that items are somebody else's by now.
func (l *reliableList) lost(ids []string) {
	lost := make([]broker.Held, len(ids))
	for i, id := range ids {
		lost[i] = broker.Held{ID: id, Count: 1} // as every item of a list is handed out
	}
	if len(lost) > 0 {
		l.config.Holder.Lost(lost)
	}
}

// putBack returns an item to where it was taken from.
func (l *reliableList) putBack(ctx context.Context, in *flight, item []byte) error {
	_, err := run(ctx, l.client, append(listPutBackScript.args(1, in.list, l.source.Key), item))
	return err
}

// Stop ends reading. It returns when no read is in progress any more.
func (l *reliableList) Stop(ctx context.Context) {
	l.stopped.Store(true)
	l.reader.interrupt(ctx)
}

// Tasks keep the consumer alive, look after what dead owners left, and move what is due.
func (l *reliableList) Tasks() []broker.Task {
	tasks := []broker.Task{
		{Name: "heartbeat", Run: l.alive.run, UntilRelease: true},
		{Name: "keeper", Run: l.keeper.run},
		{Name: "mover", Run: l.mover.run},
	}
	return l.pool.guard(l.trimmer.tasks(tasks))
}

// Release puts everything that is left in flight back to where it was taken from, in order and as it was, and takes this
// process out of the registry, in one step.
func (l *reliableList) Release(ctx context.Context, _ []broker.Held) error {
	defer l.reader.close() //nolint:errcheck // nothing is read any more
	stays := 0
	if time.Now().Before(l.broken) {
		stays = 1 // the peers look for what may still come
	}
	flights := l.flown()
	keys := []string{l.source.Key, l.alive.key, l.base + ownersKind, l.settledKey()}
	for _, in := range slices.Backward(flights) { // the newest first, so that the oldest is taken first
		keys = append(keys, in.list, in.aside)
	}
	args := append(listReleaseScript.args(2+len(flights), keys...), l.token, stays)
	for _, in := range flights {
		args = append(args, in.member)
	}
	if err := whenSent(ctx, func() error { _, err := run(ctx, l.client, args); return err }); err != nil {
		return fmt.Errorf("handing back items of list %q at %s: %w", l.source.Key, l.address, err)
	}
	return nil
}

// settledKey keeps the numbers of the settlements that were carried out.
func (l *reliableList) settledKey() string {
	return l.base + settledKind + l.consumer + ":" + l.token
}
