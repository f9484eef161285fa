package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// freeLook is how often a subscription looks for what stopping peers handed back.
const freeLook = time.Second

// subscription is one stream and group, read and settled under one consumer name.
type subscription struct {
	name     string
	source   broker.Source
	config   broker.Config
	consumer string
	address  string
	client   *redis.Client
	reader   *reader
	mover    *mover // nil without a delay set
	claims   *claims
	log      *slog.Logger

	stopped   atomic.Bool
	free      atomic.Bool // something that was handed back waits to be taken
	regroup   atomic.Bool // the group has to be made again before the next read
	lastGiven atomic.Pointer[string]
	given     atomic.Int64 // how many new entries this process was given
}

var _ broker.Subscription = (*subscription)(nil)

// Subscribe makes the group if it does not exist (XGROUP CREATE … MKSTREAM) and probes for CLAIM where the source asks
// for it.
func (b *Broker) Subscribe(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	s := &subscription{
		name: config.Name, source: config.Source, config: config, consumer: b.consumer, address: b.Address(),
		client: client, reader: newReader(b.base, client, config.Source.Block), log: config.Logger,
	}
	if s.source.DelaySet != "" {
		s.mover = newMover(s)
	}
	err = s.createGroup(ctx, s.source.Start)
	if err == nil && s.source.Claim > 0 {
		s.claims, err = probeClaims(ctx, s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stream %q at %s: %w", s.source.Key, s.address, err), s.reader.close())
	}
	return s, nil
}

// createGroup is XGROUP CREATE, which a group that exists is no error for.
func (s *subscription) createGroup(ctx context.Context, start string) error {
	err := s.client.XGroupCreateMkStream(ctx, s.source.Key, s.source.Group, start).Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("XGROUP CREATE %s: %w", s.source.Group, err)
	}
	return nil
}

// Capabilities: a claiming subscription keeps retries pending, a plain one packs its failures into the delivery count.
func (s *subscription) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		KeepsPending:  s.source.Claim > 0,
		Claim:         s.source.Claim,
		DelaySet:      s.source.DelaySet != "",
		PacksFailures: s.source.Claim == 0,
	}
}

// Read is XREADGROUP of what is new, and before it what is to be taken back.
func (s *subscription) Read(ctx context.Context, n int) ([]*broker.Delivery, error) {
	if s.stopped.Load() {
		return nil, broker.ErrClosed
	}
	if s.regroup.Load() {
		if err := s.recreateGroup(ctx); err != nil {
			return nil, err
		}
		s.regroup.Store(false)
	}
	if s.free.Swap(false) {
		deliveries, err := s.take(ctx, freeConsumer, livenessTTL, n)
		if err != nil || len(deliveries) > 0 {
			// There may be more than there were slots for.
			s.free.Store(true)
			return deliveries, s.lost(err)
		}
	}
	if s.claims != nil {
		deliveries, err := s.claims.read(ctx, n)
		return deliveries, s.lost(err)
	}
	deliveries, _, err := s.readNew(ctx, n, s.source.Block, 0)
	return deliveries, s.lost(err)
}

// readNew is XREADGROUP … >. block is the longest wait, 0 for none; claim adds pending entries that have been idle for
// so long (CLAIM). It returns how many of the deliveries were pending before.
func (s *subscription) readNew(ctx context.Context, n int, block, claim time.Duration) ([]*broker.Delivery, int, error) {
	args := make([]any, 0, 13)
	args = append(args, "XREADGROUP", "GROUP", s.source.Group, s.consumer, "COUNT", n)
	if block > 0 {
		args = append(args, "BLOCK", milliseconds(block))
	}
	if claim > 0 {
		args = append(args, "CLAIM", milliseconds(claim))
	}
	args = append(args, "STREAMS", s.source.Key, ">")
	data, err := s.reader.read(ctx, args, s.wanted)
	if err != nil || len(data) == 0 {
		if s.stopped.Load() {
			return nil, 0, broker.ErrClosed
		}
		return nil, 0, s.reader.interrupted(err)
	}
	deliveries, pending, vanished, err := parseRead(data)
	if err != nil {
		return nil, 0, err
	}
	s.discardVanished(ctx, vanished)
	if len(deliveries) > pending {
		s.lastGiven.Store(&deliveries[len(deliveries)-1].ID)
		s.given.Add(int64(len(deliveries) - pending))
	}
	return deliveries, pending, nil
}

// wanted reports whether the reader has something else to do than to block: an interrupt may have come just before the
// read began.
func (s *subscription) wanted() bool { return s.stopped.Load() || s.free.Load() }

// take takes pending entries of one owner, or of any, that have been idle for long enough.
func (s *subscription) take(ctx context.Context, owner string, idle time.Duration, n int) ([]*broker.Delivery, error) {
	data, err := s.runRaw(ctx, takeScript, []any{s.source.Group, s.consumer, owner, milliseconds(idle), n})
	if err != nil {
		return nil, err
	}
	deliveries, vanished, err := parseTaken(data)
	if err != nil {
		return nil, err
	}
	for _, id := range vanished {
		s.vanished(id)
	}
	return deliveries, nil
}

// discardVanished acknowledges entries that were trimmed or deleted while they were pending: there is nothing to handle.
func (s *subscription) discardVanished(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	if err := s.client.XAck(ctx, s.source.Key, s.source.Group, ids...).Err(); err != nil {
		return // they come back with the next claim
	}
	for _, id := range ids {
		s.vanished(id)
	}
}

func (s *subscription) vanished(id string) {
	s.log.Warn("a pending entry has vanished from the stream; acknowledged", "subscription", s.name, "stream", s.source.Key, "entry", id)
	s.config.Discarded("vanished")
}

// lost notes that the group is gone, so that the next read makes it again.
func (s *subscription) lost(err error) error {
	if isNoGroup(err) {
		s.regroup.Store(true)
	}
	return err
}

// recreateGroup makes the group again where this process last saw it, if the stream still stands, and else at the
// stream's start: nothing published since is skipped.
func (s *subscription) recreateGroup(ctx context.Context) error {
	start := "0"
	if last := s.lastGiven.Load(); last != nil {
		survived, err := s.streamSurvived(ctx, *last)
		if err != nil {
			return err
		}
		if survived {
			start = *last
		}
	}
	if err := s.createGroup(ctx, start); err != nil {
		return err
	}
	s.log.Warn("the consumer group was gone; made it again", "subscription", s.name, "stream", s.source.Key, "group", s.source.Group, "start", start)
	return nil
}

// streamSurvived tells whether the stream is the one that this process was given entries of, or another one under the
// same key: that one has not come as far, or holds fewer entries than were given out here.
func (s *subscription) streamSurvived(ctx context.Context, last string) (bool, error) {
	info, err := s.client.XInfoStream(ctx, s.source.Key).Result()
	if isRefused(err) {
		return false, nil // no such key
	}
	if err != nil {
		return false, err
	}
	if compareIDs(info.LastGeneratedID, last) < 0 {
		return false, nil
	}
	// The embedded server does not count what was added.
	return info.EntriesAdded == 0 || info.EntriesAdded >= s.given.Load(), nil
}

// Stop ends reading. It returns when no read is in progress any more.
func (s *subscription) Stop(ctx context.Context) {
	s.stopped.Store(true)
	s.reader.interrupt(ctx)
}

// Tasks are the mover of the delay set and the look for entries that stopping peers handed back.
func (s *subscription) Tasks() []broker.Task {
	var tasks []broker.Task
	if s.mover != nil {
		tasks = append(tasks, broker.Task{Name: "mover", Run: s.mover.run})
	}
	// Claiming takes what is free as it takes everything that is idle.
	if s.claims == nil {
		tasks = append(tasks, broker.Task{Name: "keeper", Run: s.lookForFree})
	}
	return tasks
}

// lookForFree tells the reader when something is free. It takes nothing itself: the reader knows how many slots are free.
func (s *subscription) lookForFree(ctx context.Context) {
	ticker := time.NewTicker(freeLook)
	defer ticker.Stop()
	for {
		found, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.source.Key, Group: s.source.Group, Idle: livenessTTL, Start: "-", End: "+", Count: 1, Consumer: freeConsumer,
		}).Result()
		if err == nil && len(found) > 0 && !s.stopped.Load() && !s.free.Swap(true) {
			s.reader.interrupt(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// runRaw runs a script on the stream and returns its raw reply.
func (s *subscription) runRaw(ctx context.Context, sc *script, args []any) ([]byte, error) {
	all := append(sc.args(len(args), s.source.Key), args...)
	for attempt := 0; ; attempt++ {
		data, err := rawReply(ctx, s.client, all)
		if !isNoScript(err) || attempt > 0 {
			return data, err
		}
		if err := loadScripts(ctx, s.client); err != nil {
			return nil, err
		}
	}
}

// milliseconds rounds up: a wait is never shorter than asked, and never 0, which is for ever.
func milliseconds(d time.Duration) int64 {
	return max(int64((d+time.Millisecond-1)/time.Millisecond), 1)
}
