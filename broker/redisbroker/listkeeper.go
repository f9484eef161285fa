package redisbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// One call puts back at most so many items of a dead owner and so many bytes. It is more than a settlement may have: what a
// consumer had in hand goes back at once, or a consumer that waits would take the newest first.
const (
	restoreItems = 1000
	restoreBytes = 8 << 20
)

// listKeeper puts back what dead owners of a list had in flight.
type listKeeper struct {
	l     *reliableList
	ids   deliveryIDs
	pulse broker.Pulse
	// missed is since when this process has seen each owner dead at every look.
	missed map[string]time.Time
}

func newListKeeper(l *reliableList) *listKeeper {
	return &listKeeper{
		l: l, ids: newDeliveryIDs(l.token), pulse: l.config.Pulse.Of(broker.CheckSweep, look), missed: make(map[string]time.Time),
	}
}

// run looks once a second until ctx ends.
func (k *listKeeper) run(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	failing := false
	for {
		err := k.judge(ctx)
		if err != nil {
			err = fmt.Errorf("looking after the owners of list %q: %w", k.l.source.Key, err)
		}
		k.pulse(err)
		switch {
		case err != nil && !failing && ctx.Err() == nil:
			k.l.log.Warn("items of dead consumers cannot be put back", "list", k.l.source.Key, "error", err)
		case err == nil && failing:
			k.l.log.Info("items of dead consumers are put back again", "list", k.l.source.Key)
		}
		failing = err != nil
		if !next(ctx, ticker) {
			return
		}
	}
}

// judge asks which owners are dead. One is believed to be where two looks a third of the TTL apart find it so, by a
// process whose own key has stood for a whole TTL: a restart of the server takes all keys away at once. An owner of our
// own name is dead at once, because the name is ours.
func (k *listKeeper) judge(ctx context.Context) error {
	l := k.l
	reply, err := run(ctx, l.client, append(listJudgeScript.args(5, l.base+ownersKind, l.alive.key, judgeKey(l.source)),
		l.token, milliseconds(lookAlone), alivePrefix(l.source), l.base+inflightKind, l.base+asideKind))
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	now := time.Now()
	missed := make(map[string]time.Time)
	dead, _ := reply.([]any)
	for _, d := range dead {
		parts, _ := d.([]any)
		if len(parts) != 2 {
			return errReply
		}
		owner, _ := parts[0].(string)
		holds, _ := parts[1].(int64)
		since, ok := k.missed[owner]
		if !ok {
			since = now
		}
		missed[owner] = since
		ours := strings.HasPrefix(owner, l.consumer+":")
		switch {
		case holds > 0 && (ours || l.alive.mayJudge() && now.Sub(since) >= l.alive.ttl/3):
			err = errors.Join(err, k.restore(ctx, owner))
		case holds == 0 && now.Sub(since) >= l.alive.ttl:
			err = errors.Join(err, k.retire(ctx, owner))
		}
	}
	k.missed = missed
	return err
}

// restore puts back what a dead owner holds, one loss charged to each item, so that the oldest is taken first and before
// everything newer.
func (k *listKeeper) restore(ctx context.Context, owner string) error {
	l := k.l
	restored := 0
	defer func() {
		if restored > 0 {
			l.log.Warn("put back what a dead consumer had in flight", "list", l.source.Key,
				"consumer", owner, "items", restored)
		}
	}()
	for {
		there, err := l.client.LRange(ctx, l.base+inflightKind+owner, 0, restoreItems-1).Result()
		if err != nil {
			return err
		}
		n := min(len(there), 1)
		for size := 0; n < len(there) && size+len(there[n]) < restoreBytes; n++ {
			size += len(there[n])
		}
		consumer, token := splitOwner(owner)
		args := append(listRestoreScript.args(3+2*n, l.source.Key, l.base+inflightKind+owner, l.base+asideKind+owner,
			alivePrefix(l.source)+consumer, l.alive.key), token, l.token, milliseconds(l.alive.ttl))
		for _, item := range there[:n] {
			args = append(args, item, k.charged([]byte(item)))
		}
		reply, err := run(ctx, l.client, args)
		if err != nil {
			return fmt.Errorf("putting items of %s back into list %q: %w", owner, l.source.Key, err)
		}
		put, _ := reply.(int64)
		if put > 0 {
			restored += int(put)
		}
		if put < int64(n) || n == len(there) {
			return nil
		}
	}
}

// retire takes a dead owner that holds nothing out of the registry.
func (k *listKeeper) retire(ctx context.Context, owner string) error {
	l := k.l
	consumer, token := splitOwner(owner)
	_, err := run(ctx, l.client, append(listRetireScript.args(3, l.base+ownersKind, l.base+inflightKind+owner, l.base+asideKind+owner,
		alivePrefix(l.source)+consumer, l.base+settledKind+consumer+":"+token), owner, token, "0"))
	return err
}

// splitOwner takes a name of the registry apart: consumer, token, and perhaps the number of the in-flight list.
func splitOwner(owner string) (consumer, token string) {
	consumer, token, _ = strings.Cut(owner, ":")
	token, _, _ = strings.Cut(token, ":")
	return consumer, token
}

// charged is the item with one loss more, and an id if it had none. A damaged one stays as it is.
func (k *listKeeper) charged(item []byte) []byte {
	e, err := openEnvelope(item)
	if err != nil {
		return item
	}
	losses := int64(0)
	for _, h := range e.headers {
		if h.Name == broker.HeaderLosses {
			losses, _ = strconv.ParseInt(h.Value, 10, 64)
		}
	}
	e.edit(broker.Edits{Set: []broker.HeaderLine{{Name: broker.HeaderLosses, Value: strconv.FormatInt(max(losses, 0)+1, 10)}}})
	e.identify(k.ids.next())
	return e.seal()
}

// lossesMark is how the name of the header stands in an envelope, as Redis sees it: what is found in a message without the
// header only costs the message a wait for a free slot.
var lossesMark = append([]byte{0x40 | byte(len(broker.HeaderLosses))}, broker.HeaderLosses...)

// outlived tells that an item has outlived an owner.
func outlived(item []byte) bool {
	return bytes.HasPrefix(item, memberMark) && bytes.Contains(item[len(memberMark):], lossesMark)
}
