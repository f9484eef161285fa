package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// subscription is one stream and group, read and settled under one consumer name.
type subscription struct {
	source   broker.Source
	config   broker.Config
	consumer string
	address  string
	client   redis.UniversalClient
	pool     *connections // of client
	reader   *reader
	alive    *liveness
	keeper   *keeper
	mover    *mover  // nil without a delay set
	claims   *claims // nil unless claiming
	letters  *letterBounds
	trimmer  *trimmer // nil where everything is kept
	log      *slog.Logger

	// late is what the heartbeat has yet to keep from looking idle. It belongs to its goroutine.
	late []broker.Held

	stopped atomic.Bool
	// deletes: an acknowledgement removes what every group has acknowledged.
	deletes atomic.Bool
	// regroup: the group has to be made again before the next read.
	regroup atomic.Bool
	given   position
	// strays: something is pending under this consumer that it does not have in hand.
	strays atomic.Bool
	// unseen and took belong to the goroutine that reads. took: the last read took entries back, so that the next one asks
	// for new ones first.
	unseen unseen
	took   bool
}

var _ broker.Subscription = (*subscription)(nil)

// subscribeStream makes the group if it does not exist (XGROUP CREATE … MKSTREAM), writes the liveness key, and probes for
// CLAIM where the source asks for it.
func (b *Broker) subscribeStream(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	s := &subscription{
		source: config.Source, config: config, consumer: b.consumerOf(config.Source), address: b.Address(),
		client: client, pool: b.connections, reader: newReader(route{client, config.Source.Key}, config.Source.Block), log: config.Logger,
	}
	s.letters = newLetterBounds(client, config, false)
	s.trimmer = b.newTrimmer(client, config, s.letters)
	s.alive, s.keeper = newLiveness(client, config, s.consumer, b.token, b.liveness, s.keep), newKeeper(s)
	if s.source.Defers && s.source.DelaySet == "" {
		s.source.DelaySet = deferredSet(s.source.Key)
	}
	if s.source.DelaySet != "" {
		s.mover = newMover(client, config, s.source.DelaySet, streamMoves(client, config, s.source.DelaySet).move)
	}
	err = s.createGroup(ctx, s.source.Start)
	if err == nil {
		err = s.checkPermissions(ctx)
	}
	if err == nil {
		err = s.alive.open(ctx)
	}
	if err == nil {
		err = s.probeDelete(ctx)
	}
	if err == nil && s.source.Claim > 0 {
		s.claims, err = probeClaims(ctx, s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stream %q at %s: %w", s.source.Key, s.address, err), s.reader.close())
	}
	warnApart(s.log, client, b.prefix, s.source.Key, s.source.DelaySet, s.config.DeadLetter)
	s.keeper.inherit(b.fixed)
	return s, nil
}

// Capabilities: a claiming subscription keeps retries pending; failures and losses are kept apart in the delivery count
// but where Redis's own count is asked for.
func (s *subscription) Capabilities() broker.Capabilities {
	addressee := s.source.Group
	if s.source.Foreign {
		addressee = "" // There are no copies, and what the header says there is the foreign writer's.
	}
	return broker.Capabilities{
		Acks:          true,
		Refetches:     true,
		InPlace:       s.source.Foreign,
		Addressee:     addressee,
		KeepsPending:  s.source.Claim > 0,
		Claim:         s.source.Claim,
		DelaySet:      s.config.Source.DelaySet != "",
		PacksFailures: s.source.Claim == 0 || s.config.PackFailures,
		InSteps:       anyApart(s.client, s.source.Key, s.source.DelaySet, s.config.DeadLetter),
	}
}

// idleOfDead is how long an entry of a dead owner has to have been idle before it is taken.
func (s *subscription) idleOfDead() time.Duration { return max(s.alive.ttl, s.source.Reclaim) }

// Read is XREADGROUP of what is new, and before it what is to be taken back.
func (s *subscription) Read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if s.stopped.Load() {
		return nil, broker.ErrClosed
	}
	began := time.Now()
	deliveries, err := s.read(ctx, want)
	if len(deliveries) > 0 && !s.alive.stoodSince(began) {
		// A process that stood still gets a reply that is as old as that, and its key is made again before it looks: the
		// entries may have been taken by a peer since they were given out.
		for _, d := range deliveries {
			d.HandedOut = began
		}
	}
	if err != nil && !errors.Is(err, broker.ErrClosed) {
		// The server may have given something out whose reply was lost.
		s.unseen.suspect(s.source.Block)
	}
	return deliveries, s.lost(err)
}

func (s *subscription) read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if s.regroup.Load() {
		if err := s.recreateGroup(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.keeper.dispel(ctx); err != nil {
		return nil, err
	}
	if deliveries, err := s.readOwn(ctx, want.New); err != nil || len(deliveries) > 0 {
		return deliveries, err
	}
	// New entries and those of dead owners take turns, so that neither starves.
	if s.took && s.source.Reclaim == 0 {
		s.took = false
		deliveries, _, err := s.readNew(ctx, want.New, 0, 0, s.stopped.Load)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
	}
	for owner := s.keeper.next(); owner != "" && (want.Back > 0 || owner == freeConsumer); owner = s.keeper.next() {
		t, err := s.takeFrom(ctx, owner, want)
		if err != nil || len(t.deliveries) > 0 {
			// What a stopping process handed back was read before anything that is new, and goes first.
			s.took = owner != freeConsumer
			s.keeper.took(t.deliveries)
			return t.deliveries, err
		}
		if t.next == "" {
			s.keeper.exhausted(owner)
			continue
		}
		if want.Back == 0 {
			// It is for a free slot, and nothing that is new overtakes it.
			return nil, s.reader.pause(ctx, backPoll, s.stopped.Load, want.Freed)
		}
	}
	block, enough := s.blocking(want)
	switch {
	case s.source.Reclaim > 0:
		return nil, s.reader.pause(ctx, block, enough, want.Freed)
	case s.claims != nil:
		return s.claims.read(ctx, want, block, enough)
	}
	if want.Back == 0 && s.keeper.next() != "" {
		return s.readBeside(ctx, want)
	}
	deliveries, _, err := s.readNew(ctx, want.New, block, 0, enough)
	return deliveries, err
}

// readBeside reads what is new while something waits to be taken back and no slot is free for it: a read that blocked would
// still do so when one is.
func (s *subscription) readBeside(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	deliveries, _, err := s.readNew(ctx, want.New, 0, 0, s.called)
	if err != nil || len(deliveries) > 0 {
		return deliveries, err
	}
	return nil, s.reader.pause(ctx, backPoll, s.called, want.Freed)
}

// readNew is XREADGROUP … >. block is the longest wait, 0 for none; claim adds pending entries that have been idle for
// so long (CLAIM). enough keeps the read from beginning. It returns how many of the deliveries were pending before.
func (s *subscription) readNew(ctx context.Context, n int, block, claim time.Duration, enough func() bool) ([]*broker.Delivery, int, error) {
	block = s.unseen.bound(block)
	args := make([]any, 0, 13)
	args = append(args, "XREADGROUP", "GROUP", s.source.Group, s.consumer, "COUNT", n)
	if block > 0 {
		args = append(args, "BLOCK", milliseconds(block))
	}
	if claim > 0 {
		args = append(args, "CLAIM", milliseconds(claim))
	}
	args = append(args, "STREAMS", s.source.Key, ">")
	data, err := s.reader.read(ctx, args, enough)
	if err != nil || len(data) == 0 {
		if s.stopped.Load() {
			return nil, 0, broker.ErrClosed
		}
		if err != nil && s.reader.hungUp.Swap(false) {
			// The connection was closed to end the read; what it was given is found by the look for what is unseen.
			s.unseen.suspect(s.source.Block)
			return nil, 0, nil
		}
		return nil, 0, err
	}
	deliveries, pending, vanished, err := parseRead(data)
	if err != nil {
		return nil, 0, err
	}
	stamp(deliveries)
	s.discardVanished(ctx, vanished)
	if fresh := len(deliveries) - pending; fresh > 0 {
		s.given.gave(deliveries[len(deliveries)-1].ID, fresh)
	}
	return deliveries, pending, nil
}

// backPoll is how long a read waits at most while no slot is free for what waits to be taken back, or an outcome is
// awaited.
const backPoll = 100 * time.Millisecond

// blocking says how long a read may block, and what keeps it from doing so.
func (s *subscription) blocking(want broker.Want) (block time.Duration, enough func() bool) {
	block = s.source.Block
	if s.keeper.inDoubt() {
		block = min(block, backPoll)
	}
	if want.Back > 0 {
		return block, s.wanted
	}
	return block, s.called
}

// called and wanted report whether the reader has something else to do than to block, without a free slot and with one: an
// interrupt may have come just before the read began.
func (s *subscription) called() bool { return s.stopped.Load() || s.strays.Load() }
func (s *subscription) wanted() bool { return s.called() || s.keeper.next() != "" }

// stamp notes when the deliveries came.
func stamp(deliveries []*broker.Delivery) {
	now := time.Now()
	for _, d := range deliveries {
		d.HandedOut = now
	}
}

// Stop ends reading. It returns when no read is in progress any more.
func (s *subscription) Stop(ctx context.Context) {
	s.stopped.Store(true)
	s.reader.interrupt(ctx)
}

// Tasks keep the consumer alive, look after the group, move what is due, and remove what need not be kept.
func (s *subscription) Tasks() []broker.Task {
	tasks := []broker.Task{
		{Name: "heartbeat", Run: s.alive.run, UntilRelease: true},
		{Name: "keeper", Run: s.keeper.run},
	}
	if s.mover != nil {
		tasks = append(tasks, broker.Task{Name: "mover", Run: s.mover.run})
	}
	return s.pool.guard(s.trimmer.tasks(tasks))
}

// runRaw runs a script call and returns its raw reply.
func (s *subscription) runRaw(ctx context.Context, args []any) ([]byte, error) {
	data, err := rawReply(ctx, s.client, args)
	if !isNoScript(err) {
		return data, err
	}
	if err := loadScripts(ctx, s.client); err != nil {
		return nil, err
	}
	return rawReply(ctx, s.client, args)
}

// milliseconds rounds up: a wait is never shorter than asked, and never 0, which is for ever.
func milliseconds(d time.Duration) int64 {
	return max(int64((d+time.Millisecond-1)/time.Millisecond), 1)
}
