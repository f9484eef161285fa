package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Measure sends one pipeline: scripts that read each stream (XINFO STREAM, XINFO GROUPS), delay set (ZCARD, ZRANGE, TIME) and
// what is in flight of each reliable list (SMEMBERS, LLEN), and XLEN and LLEN for the rest. What several sources share is
// asked once, and only numbers come back.
func (b *Broker) Measure(ctx context.Context, sources []broker.Measurand) ([]broker.Measures, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	m := &measuring{asked: make(map[string]*question)}
	all := make([]func() broker.Measures, len(sources))
	for i := range sources {
		all[i] = m.source(&sources[i])
	}
	if len(m.questions) == 0 {
		return make([]broker.Measures, len(sources)), nil
	}
	if err := m.send(ctx, client); err != nil {
		return nil, fmt.Errorf("measuring at %s: %w", b.Address(), err)
	}
	measures := make([]broker.Measures, len(sources))
	for i, answer := range all {
		measures[i] = answer()
	}
	if err := m.refused(); err != nil {
		return measures, fmt.Errorf("measuring at %s: %w", b.Address(), err)
	}
	return measures, nil
}

// measuring is one pipeline of questions.
type measuring struct {
	questions []*question
	asked     map[string]*question
}

type question struct {
	args    []any
	command *redis.Cmd
}

// ask puts a command into the pipeline, unless it is there already.
func (m *measuring) ask(args ...any) *question {
	key := fmt.Sprintf("%q", args)
	q := m.asked[key]
	if q == nil {
		q = &question{args: args}
		m.asked[key] = q
		m.questions = append(m.questions, q)
	}
	return q
}

// source asks for one source, and returns what reads the answers.
func (m *measuring) source(s *broker.Measurand) func() broker.Measures {
	var read []func(*broker.Measures)
	number := func(q *question, to func(*broker.Measures) *broker.Number) {
		read = append(read, func(into *broker.Measures) { *to(into) = q.number() })
	}
	key, letters := s.Source.Key, ""
	switch s.Source.Structure {
	case broker.StructureStream:
		q := m.ask(append(measureScript.args(1, key), s.Source.Group)...)
		read = append(read, q.stream)
		letters = "XLEN"
	case broker.StructureList:
		q := m.ask("LLEN", key)
		number(q, func(into *broker.Measures) *broker.Number { return &into.Length })
		number(q, func(into *broker.Measures) *broker.Number { return &into.Lag })
		if s.Source.Reliable {
			base := base(key)
			q := m.ask(append(listMeasureScript.args(2, base+ownersKind), base+inflightKind, base+asideKind)...)
			number(q, func(into *broker.Measures) *broker.Number { return &into.Pending })
		}
		letters = "LLEN"
	}
	if set := delaySetOf(&s.Source); set != "" {
		read = append(read, m.ask(setMeasureScript.args(0, set)...).set)
	}
	if s.DeadLetter != "" && letters != "" {
		number(m.ask(letters, s.DeadLetter), func(into *broker.Measures) *broker.Number { return &into.DeadLetters })
	}
	return func() (measures broker.Measures) {
		for _, f := range read {
			f(&measures)
		}
		return measures
	}
}

// delaySetOf is the set in which messages of the source wait, the directive's or the source's own, "" for none.
func delaySetOf(s *broker.Source) string {
	switch {
	case s.DelaySet != "":
		return s.DelaySet
	case s.Structure == broker.StructureStream && s.Defers, s.Structure == broker.StructureList && s.Reliable:
		return deferredSet(s.Key)
	}
	return ""
}

// send sends the pipeline, and once more what met a server without its scripts.
func (m *measuring) send(ctx context.Context, client redis.UniversalClient) error {
	if err := exec(ctx, client, m.questions); err != nil {
		return err
	}
	var again []*question
	for _, q := range m.questions {
		if isNoScript(q.command.Err()) {
			again = append(again, q)
		}
	}
	if len(again) == 0 {
		return nil
	}
	if err := loadScripts(ctx, client); err != nil {
		return err
	}
	return exec(ctx, client, again)
}

// exec returns an error where there is no answer; what the server refuses is the question's.
func exec(ctx context.Context, client redis.UniversalClient, questions []*question) error {
	pipe := client.Pipeline()
	for _, q := range questions {
		q.command = pipe.Do(ctx, q.args...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	return nil
}

// refused is what the server did not answer, a line for each command of its kind.
func (m *measuring) refused() error {
	var errs []error
	for _, q := range m.questions {
		if err := q.command.Err(); err != nil && !errors.Is(err, redis.Nil) {
			errs = append(errs, fmt.Errorf("%v %v: %w", q.args[0], q.args[len(q.args)-1], err))
		}
	}
	return errors.Join(errs...)
}

// number is the answer of a command that counts.
func (q *question) number() broker.Number {
	n, err := q.command.Int64()
	return broker.Number{N: n, Known: err == nil}
}

// stream is the answer of the script for streams.
func (q *question) stream(into *broker.Measures) {
	numbers, err := q.command.Int64Slice()
	if err != nil || len(numbers) != 3 {
		return
	}
	for i, to := range []*broker.Number{&into.Length, &into.Lag, &into.Pending} {
		if numbers[i] >= 0 {
			*to = broker.Known(numbers[i])
		}
	}
}

// set is the answer of the script for delay sets.
func (q *question) set(into *broker.Measures) {
	numbers, err := q.command.Int64Slice()
	if err != nil || len(numbers) != 2 {
		return
	}
	into.Delayed, into.HasOverdue = broker.Known(numbers[0]), true
	into.Overdue = time.Duration(min(numbers[1], longestDelay.Milliseconds())) * time.Millisecond
}
