package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// settleInSteps is the way of an entry with more fields than a script can append: look whether it is still ours, write,
// acknowledge. A crash between the last two leaves both, so that the message is handled again; it is never lost.
func (s *subscription) settleInSteps(ctx context.Context, st *broker.Settlement) (broker.Result, error) {
	group, id, count := s.source.Group, st.Delivery.ID, st.Delivery.Count
	reply, err := run(ctx, s.client, append(checkScript.args(4, s.source.Key), group, s.consumer, id, count))
	if err != nil {
		return 0, s.lost(err)
	}
	if text, _ := reply.(string); text != "done" {
		return result(st, text)
	}
	if err := s.write(ctx, st); err != nil {
		return 0, err
	}
	reply, err = run(ctx, s.client, append(ackScript.args(4, s.source.Key), group, s.consumer, id, count))
	if err != nil {
		return 0, err
	}
	if results, ok := reply.([]any); ok && len(results) == 1 {
		text, _ := results[0].(string)
		return result(st, text)
	}
	return 0, fmt.Errorf("%s of entry %s: %v", st.Action, id, reply)
}

// write writes what the settlement leaves, without a look at the entry.
func (s *subscription) write(ctx context.Context, st *broker.Settlement) error {
	key, fields := s.source.Key, contents(st)
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	switch st.Action {
	case broker.Delay:
		member, err := encodeMember(s.source.Key, s.source.Group, st.Delivery, fields)
		if err != nil {
			return err
		}
		due := now.UnixMilli() + 1 + delayMilliseconds(st.Delay)
		return s.client.ZAdd(ctx, s.source.DelaySet, redis.Z{Score: float64(due), Member: member}).Err()
	case broker.Bury:
		key = st.Target
		fields = append(fields, field(broker.FieldAt, strconv.FormatInt(now.UnixMilli(), 10)))
	}
	args := append(make([]any, 0, 3+2*len(fields)), "XADD", key, "*")
	if err := s.client.Do(ctx, appendFields(args, fields)...).Err(); err != nil {
		return fmt.Errorf("%s of entry %s to %q: %w", st.Action, st.Delivery.ID, key, err)
	}
	return nil
}

// unparkInSteps fetches the entry whose body is no longer in hand, and goes on as with one that is.
func (s *subscription) unparkInSteps(ctx context.Context, st *broker.Settlement) (broker.Result, error) {
	data, err := rawReply(ctx, s.client, []any{"XRANGE", s.source.Key, st.Delivery.ID, st.Delivery.ID})
	if err != nil {
		return 0, err
	}
	r := &reply{data: data}
	if n, err := r.length(); err != nil || n != 1 {
		return 0, errors.Join(err, fmt.Errorf("entry %s: %d found", st.Delivery.ID, n))
	}
	if _, err := r.length(); err != nil {
		return 0, err
	}
	if _, err := r.text(); err != nil {
		return 0, err
	}
	fields, _, err := r.fields(nil)
	if err != nil {
		return 0, err
	}
	whole := *st
	whole.Action, whole.Delivery = broker.Copy, delivery(st.Delivery.ID, st.Delivery.Count, fields)
	return s.settleInSteps(ctx, &whole)
}
