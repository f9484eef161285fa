package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// list is the subscription of a plain list. An item is gone from the server as soon as it is taken, so that each is
// delivered at most once: a crash loses what is in hand.
type list struct {
	source  broker.Source
	config  broker.Config
	address string
	client  redis.UniversalClient
	pool    *connections // of client
	reader  *listReader
	log     *slog.Logger
	ids     deliveryIDs
	letters *letterBounds
	trimmer *trimmer // nil where everything is kept

	stopped atomic.Bool
	// apart: the server has no BLMPOP, which waits and takes many at once. It belongs to the goroutine that reads.
	apart bool
}

var _ broker.Subscription = (*list)(nil)

// deliveryIDs makes the ids of the deliveries of one list, which has none of its own. It belongs to one goroutine.
type deliveryIDs struct {
	prefix string
	n      uint64
}

// lists numbers the lists that the process has subscribed.
var lists atomic.Int64

func newDeliveryIDs(token string) deliveryIDs {
	return deliveryIDs{prefix: token + "-l" + strconv.FormatInt(lists.Add(1), 10) + "-"}
}

func (ids *deliveryIDs) next() string {
	ids.n++
	var room [96]byte
	return string(strconv.AppendUint(append(room[:0], ids.prefix...), ids.n, 10))
}

// deliveries makes each item one.
func (ids *deliveryIDs) deliveries(items [][]byte) []*broker.Delivery {
	now, block := time.Now(), make([]broker.Delivery, len(items))
	all := make([]*broker.Delivery, len(items))
	for i, item := range items {
		block[i].HandedOut = now
		openDelivery(&block[i], ids.next(), item)
		all[i] = &block[i]
	}
	return all
}

// subscribeList checks the permissions. A list that does not exist is an empty one.
func (b *Broker) subscribeList(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	l := &list{
		source: config.Source, config: config, address: b.Address(), client: client, pool: b.connections, log: config.Logger,
		ids: newDeliveryIDs(b.token), letters: newLetterBounds(client, config, true),
	}
	l.trimmer = b.newTrimmer(client, config, l.letters)
	err = l.checkPermissions(ctx)
	if err == nil {
		l.reader, err = newListReader(ctx, client, l.source, l.source.Block, l.stopped.Load)
	}
	if err != nil {
		return nil, fmt.Errorf("list %q at %s: %w", l.source.Key, l.address, err)
	}
	return l, nil
}

// Capabilities: nothing is acknowledged, and delays are kept in the process.
func (l *list) Capabilities() broker.Capabilities { return broker.Capabilities{PacksFailures: true} }

// Read takes from the right, as many items as are wanted in one command, and waits where there is none (BLMPOP).
func (l *list) Read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if l.stopped.Load() {
		return nil, broker.ErrClosed
	}
	taken, err := l.take(ctx, want.New)
	if err != nil && l.stopped.Load() {
		return nil, broker.ErrClosed
	}
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	return l.ids.deliveries(taken), nil
}

func (l *list) take(ctx context.Context, n int) ([][]byte, error) {
	key, block := l.source.Key, seconds(l.reader.block)
	if !l.apart {
		data, err := l.reader.pop(ctx, l.stopped.Load, "BLMPOP", block, 1, key, "RIGHT", "COUNT", n)
		if err == nil {
			return keyedItems(data)
		}
		if !isUnknownCommand(err) {
			return nil, err
		}
		l.apart = true
	}
	data, err := l.reader.pop(ctx, l.stopped.Load, "RPOP", key, n)
	if err != nil {
		return nil, err
	}
	if taken, err := items(data); err != nil || len(taken) > 0 {
		return taken, err
	}
	if data, err = l.reader.pop(ctx, l.stopped.Load, "BRPOP", key, block); err != nil {
		return nil, err
	}
	return keyedItems(data)
}

func isUnknownCommand(err error) bool {
	return isRefused(err) && strings.Contains(err.Error(), "unknown command")
}

// Stop ends reading. It returns when no read is in progress any more.
func (l *list) Stop(ctx context.Context) {
	l.stopped.Store(true)
	l.reader.interrupt(ctx)
}

// Tasks: nothing has to be looked after but dead letters that are not kept for ever.
func (l *list) Tasks() []broker.Task { return l.pool.guard(l.trimmer.tasks(nil)) }

// Settle pushes the copies and dead letters of the batch (LPUSH) in one round trip; everything else is done already.
//
// Each is pushed once. A list that keeps nothing in flight has nothing by which a push that was repeated could be told
// from the first, so that after an error whose command may have been carried out it is not sent again: the settlement
// ends as Lost, which is counted, and a line in the log says why. An error is returned where the server refused the push,
// or where nothing was sent.
func (l *list) Settle(ctx context.Context, batch []*broker.Settlement) {
	l.pool.do(ctx, func(ctx context.Context) { l.settle(ctx, batch) })
}

func (l *list) settle(ctx context.Context, batch []*broker.Settlement) {
	untimed := stampBurials(ctx, l.client, batch)
	var sent []*broker.Settlement
	var commands []*redis.IntCmd
	pipe := l.client.Pipeline()
	for _, st := range batch {
		st.Result, st.Err = 0, nil
		var e envelope
		target := l.source.Key
		switch st.Action {
		case broker.Ack, broker.Keep:
			st.Result = broker.Done
			continue
		case broker.Copy:
			e = editedEnvelope(st.Delivery, st.Edits)
		case broker.Bury:
			if untimed != nil {
				st.Err = untimed
				continue
			}
			e, target = burialEnvelope(st), st.Target
		default:
			st.Err = fmt.Errorf("%s of list %q: a plain list keeps nothing", st.Action, l.source.Key)
			continue
		}
		sent, commands = append(sent, st), append(commands, pipe.LPush(ctx, target, e.seal()))
	}
	if len(sent) == 0 {
		return
	}
	if err := ctx.Err(); err != nil {
		for _, st := range sent {
			st.Err = err
		}
		return
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	full := ""
	for i, st := range sent {
		switch err := commands[i].Err(); {
		case err == nil:
			st.Result = broker.Done
			if last := l.letters.last(st.Target); st.Action == broker.Bury && last > 0 && commands[i].Val() > last {
				full = st.Target
			}
		case mayHaveArrived(err):
			st.Result = broker.Lost
			l.log.Error("the answer to a push was lost; it may or may not have been carried out, and is not repeated",
				"list", l.source.Key, "action", st.Action.String(), "id", st.Delivery.ID, "message", st.Delivery.MessageID(), "error", err.Error())
		default:
			st.Err = fmt.Errorf("%s of list %q: LPUSH: %w", describe(st.Action, l.source.Key, st.Target), l.source.Key, err)
		}
	}
	if full != "" {
		_, _ = l.letters.bound(ctx, full) // what fails here is made good by the trimmer
	}
}

// stampBurials gives every burial of the batch its time, by the server's clock.
func stampBurials(ctx context.Context, client redis.UniversalClient, batch []*broker.Settlement) error {
	if !slices.ContainsFunc(batch, isBurial) {
		return nil
	}
	now, err := client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("the time of a dead letter: TIME: %w", err)
	}
	for _, st := range batch {
		if isBurial(st) {
			st.Burial.At = now
		}
	}
	return nil
}

func isBurial(st *broker.Settlement) bool { return st.Action == broker.Bury }

// Release puts back what has not been started, where it was taken from, so that the oldest is taken first again (RPUSH). The
// rest of what is in hand is lost, and counted.
func (l *list) Release(ctx context.Context, held []broker.Held) error {
	defer l.reader.close() //nolint:errcheck // nothing is read any more
	var back []*broker.Delivery
	for _, h := range held {
		if h.Delivery != nil && !h.Started {
			back = append(back, h.Delivery)
		}
	}
	// The newest first.
	slices.SortFunc(back, func(a, b *broker.Delivery) int { return compareDeliveryIDs(b.ID, a.ID) })
	var failure error
	lost := len(held) - len(back)
	for len(back) > 0 {
		n, bytes := 0, 0
		var values []any
		for n < len(back) && n < callEntries && (n == 0 || bytes < callBytes) {
			values, bytes = append(values, back[n].Raw), bytes+len(back[n].Raw)
			n++
		}
		// What could not be handed back is lost, and so is the rest: their order would be another.
		failure = whenSent(ctx, func() error { return l.client.RPush(ctx, l.source.Key, values...).Err() })
		if failure != nil {
			lost += len(back)
			failure = fmt.Errorf("putting items back into list %q at %s: %w", l.source.Key, l.address, failure)
			break
		}
		back = back[n:]
	}
	for range lost {
		l.config.Discarded(whyStopped)
	}
	if lost > 0 {
		l.log.Warn("items of the list were lost with the stop", "list", l.source.Key, "lost", lost)
	}
	return failure
}

// compareDeliveryIDs orders the ids of one deliveryIDs by age.
func compareDeliveryIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
