package redisbroker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// The targets of the move script, by index of its keys.
const (
	moveLater   = -1
	moveNowhere = 0
	moveStream  = 2
	moveBuried  = 3
)

// due is one member of a delay set whose time has come.
type due struct {
	member string
	target int
	fields []broker.Field
	// inSteps: the script that removes the member cannot append it as well. It only leases the member, which keeps the other
	// movers off while it is written and removed.
	inSteps bool
}

// moveMembers appends due members to the stream, in one script call where that can be.
func (s *subscription) moveMembers(ctx context.Context, members []string) error {
	if err := s.removeMoved(ctx); err != nil {
		return err
	}
	set := s.source.DelaySet
	keys := [...]string{set, set, set} // a key in another slot is not the script's to touch
	streamApart, deadLetterApart := apart(s.client, set, s.source.Key), apart(s.client, set, s.config.DeadLetter)
	if !streamApart {
		keys[moveStream-1] = s.source.Key
	}
	if s.config.DeadLetter != "" && !deadLetterApart {
		keys[moveBuried-1] = s.config.DeadLetter
	}
	args := append(moveScript.args(8*len(members), keys[:]...), milliseconds(moveLease))
	all := make([]due, len(members))
	for i, member := range members {
		d := s.due(member)
		d.inSteps = d.target == moveStream && (streamApart || len(d.fields) > wideFields) || d.target == moveBuried && deadLetterApart
		all[i] = d
		if d.inSteps {
			args = append(args, member, moveLater, 0)
			continue
		}
		args = appendFields(append(args, member, d.target, 2*len(d.fields)), d.fields)
	}
	began := time.Now()
	reply, err := run(ctx, s.client, args)
	if err != nil {
		return err
	}
	leased, err := s.moved(reply, all)
	return errors.Join(err, s.moveInSteps(ctx, leased, began))
}

// due decides where a member goes.
func (s *subscription) due(member string) due {
	fields, err := decodeMember([]byte(member))
	switch {
	case errors.Is(err, errNewerMember):
		s.log.Warn("a delayed message was written by a later version of this library; left for a process that knows it",
			"subscription", s.name, "delay_set", s.source.DelaySet)
		return due{member: member, target: moveLater}
	case err != nil && s.config.DeadLetter == "":
		s.log.Error("a delayed message cannot be decoded and there is no dead letter; discarded",
			"subscription", s.name, "delay_set", s.source.DelaySet, "bytes", len(member), "error", err)
		return due{member: member, target: moveNowhere}
	case err != nil:
		return due{member: member, target: moveBuried, fields: s.malformed(member, err)}
	}
	return due{member: member, target: moveStream, fields: fields}
}

// moved counts what the script buried or discarded, and returns what it leased and the first error.
func (s *subscription) moved(reply any, all []due) (leased []due, failure error) {
	list, _ := reply.([]any)
	if len(list) != len(all) {
		return nil, errReply
	}
	for i, r := range list {
		switch text, _ := r.(string); {
		case text == "done" && all[i].inSteps:
			leased = append(leased, all[i])
		case text == "done":
			s.countMoved(all[i])
		case text != "gone" && failure == nil:
			failure = serverError(text)
		}
	}
	return leased, failure
}

func (s *subscription) countMoved(d due) {
	switch d.target {
	case moveBuried:
		s.config.Buried(broker.ReasonMalformed)
	case moveNowhere:
		s.config.Discarded(broker.ReasonMalformed)
	}
}

// moveInSteps writes members that were leased after began, and then removes them: a crash in between leaves a message
// twice and never loses it. What was certainly not written is due again at once; what may have been, once its lease has
// run out.
func (s *subscription) moveInSteps(ctx context.Context, leased []due, began time.Time) error {
	// A process that stood still may have lost its leases meanwhile.
	if len(leased) == 0 || time.Since(began) > moveLease/2 {
		return nil
	}
	commands := make([]*redis.Cmd, len(leased))
	pipe := s.client.Pipeline()
	for i, d := range leased {
		target := s.source.Key
		if d.target == moveBuried {
			target = s.config.DeadLetter
		}
		args := append(make([]any, 0, 3+2*len(d.fields)), "XADD", target, "*")
		commands[i] = pipe.Do(ctx, appendFields(args, d.fields)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	var written []any
	var back []redis.Z
	var failure error
	for i, d := range leased {
		err := commands[i].Err()
		if err == nil {
			s.countMoved(d)
			written = append(written, d.member)
			continue
		}
		if failure == nil {
			failure = err
		}
		if !mayHaveArrived(err) {
			back = append(back, redis.Z{Score: float64(time.Now().UnixMilli()), Member: d.member})
		}
	}
	if len(back) > 0 {
		failure = errors.Join(failure, s.client.ZAddXX(ctx, s.source.DelaySet, back...).Err())
	}
	s.unremoved.add(written)
	return errors.Join(failure, s.removeMoved(ctx))
}

// removeMoved takes the members off the delay set that stand on the stream by now, and those that an error left there.
func (s *subscription) removeMoved(ctx context.Context) error {
	members := s.unremoved.take()
	if len(members) == 0 {
		return nil
	}
	err := s.client.ZRem(ctx, s.source.DelaySet, members...).Err()
	if err != nil {
		s.unremoved.add(members)
	}
	return err
}

// leftovers are members that were moved and have to be removed. Safe for concurrent use.
type leftovers struct {
	mu      sync.Mutex
	members []any
}

func (l *leftovers) add(members []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = slices.Concat(l.members, members)
}

func (l *leftovers) take() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	members := l.members
	l.members = nil
	return members
}

// malformed is the dead letter of a member that nobody can decode: its bytes are the payload.
func (s *subscription) malformed(text string, cause error) []broker.Field {
	burial := broker.Burial{
		Reason: broker.ReasonMalformed, Detail: cause.Error(), Error: cause.Error(),
		Source: s.source.DelaySet, Group: s.source.Group, Handler: s.name, At: time.Now(),
	}
	fields := []broker.Field{field(fieldPayload, text)}
	for _, h := range burial.Fields() {
		fields = append(fields, field(h.Name, h.Value))
	}
	return fields
}
