package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// trimEvery is how often retention is looked after.
	trimEvery = time.Minute
	// trimRest is how long nobody must have needed an entry before it is removed: a group that was lost has been made again by
	// then, and what was pending in it put back.
	trimRest = 5 * time.Second
	// trimEntries is how many entries one call removes: the server does nothing else meanwhile.
	trimEntries = 1000
	// endOfStream is behind every id.
	endOfStream = "18446744073709551615-18446744073709551615"
)

// trimmer removes, once a minute and when the subscription starts, what retention lets go: from the stream once no group
// needs it, and from dead letters what is too old, or was too many before there was a bound.
type trimmer struct {
	client  redis.UniversalClient
	config  broker.Config
	letters *letterBounds
	unread  *unreadGroups
	log     *slog.Logger

	every, rest time.Duration
}

// newTrimmer returns nil where everything is kept.
func (b *Broker) newTrimmer(client redis.UniversalClient, config broker.Config, letters *letterBounds) *trimmer {
	if config.Retain.Keeps() && len(config.Letters) == 0 {
		return nil
	}
	return &trimmer{
		client: client, config: config, letters: letters, unread: newUnreadGroups(client, config), log: config.Logger,
		every: b.trimEvery, rest: b.trimRest,
	}
}

// tasks adds the trimmer's own.
func (t *trimmer) tasks(tasks []broker.Task) []broker.Task {
	if t == nil {
		return tasks
	}
	return append(tasks, broker.Task{Name: "trimmer", Run: t.run})
}

// run trims until ctx ends.
func (t *trimmer) run(ctx context.Context) {
	failing := false
	for {
		unneeded, err := t.look(ctx)
		if wait(ctx, t.rest) != nil {
			return
		}
		if err == nil {
			err = t.trim(ctx, unneeded)
		}
		err = errors.Join(err, t.trimLetters(ctx))
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			t.log.Warn("what need not be kept cannot be removed", "error", err)
		case err == nil && failing:
			t.log.Info("what need not be kept is removed again")
		}
		failing = err != nil
		if wait(ctx, t.every-t.rest) != nil {
			return
		}
	}
}

// look returns the id below which no group of the stream needs anything now, "" where nothing is to be trimmed, and tells of
// groups that hold back what nobody reads.
func (t *trimmer) look(ctx context.Context) (unneeded string, err error) {
	if t.config.Retain.Keeps() {
		return "", nil
	}
	_, unneeded, behind, err := t.step(ctx, t.config.Source.Key, t.config.Source.Group, "", t.config.Retain)
	if err != nil || unneeded == "" {
		return "", err
	}
	return unneeded, t.unread.look(ctx, behind)
}

// trim removes what is below the id and still unneeded, as far as the bounds let it go.
func (t *trimmer) trim(ctx context.Context, unneeded string) error {
	if unneeded == "" {
		return nil
	}
	return t.trimStream(ctx, t.config.Source.Key, t.config.Source.Group, unneeded, t.config.Retain)
}

// trimStream removes entries in steps, between which the server answers others, until nothing more is to be removed.
func (t *trimmer) trimStream(ctx context.Context, key, group, below string, retain broker.Retention) error {
	for {
		removed, _, _, err := t.step(ctx, key, group, below, retain)
		if err != nil || removed == 0 {
			return err
		}
		t.config.Trimmed(key, removed)
	}
}

// behind is a group that needs what another one has been given already: the lowest id that it needs.
type behind struct {
	group   string
	needs   string
	pending int64
}

// step is one call of the script; below "" only looks. Where the stream or the group is gone there is nothing to do, and
// unneeded is "".
func (t *trimmer) step(ctx context.Context, key, group, below string, retain broker.Retention) (removed int64, unneeded string, held []behind, err error) {
	age := int64(0)
	if retain.For > 0 {
		age = milliseconds(retain.For)
	}
	reply, err := run(ctx, t.client, append(trimScript.args(5, key), group, below, retain.Last, age, trimEntries))
	if errors.Is(err, redis.Nil) {
		return 0, "", nil, nil
	}
	if err != nil {
		return 0, "", nil, fmt.Errorf("trimming stream %q: %w", key, err)
	}
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return 0, "", nil, errReply
	}
	removed, _ = parts[0].(int64)
	unneeded, _ = parts[1].(string)
	for _, part := range parts[2:] {
		of, _ := part.([]any)
		if len(of) != 3 {
			return 0, "", nil, errReply
		}
		var b behind
		b.group, _ = of[0].(string)
		b.needs, _ = of[1].(string)
		b.pending, _ = of[2].(int64)
		held = append(held, b)
	}
	return removed, unneeded, held, nil
}

// trimLetters removes from dead letters what is beyond their bounds.
func (t *trimmer) trimLetters(ctx context.Context) error {
	var errs error
	for _, key := range slices.Sorted(maps.Keys(t.config.Letters)) {
		more, err := true, error(nil)
		for more && err == nil {
			more, err = t.letters.bound(ctx, key)
		}
		if retain := t.config.Letters[key]; err == nil && retain.For > 0 {
			retain.Last = 0
			if t.letters.list {
				err = t.letters.expire(ctx, key, retain.For)
			} else {
				err = t.trimStream(ctx, key, "", endOfStream, retain)
			}
		}
		errs = errors.Join(errs, err)
	}
	return errs
}
