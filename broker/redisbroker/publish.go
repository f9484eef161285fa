package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// One pipeline of a batch holds at most so many messages, and so many bytes: what has been sent and not yet answered is
	// in the memory of both sides.
	batchMessages = 1000
	batchBytes    = 8 << 20
)

// Publish appends, pushes or publishes the messages: XADD, LPUSH, PUBLISH or SPUBLISH, and a script that adds those that
// wait to their delay set. They go in one round trip for every thousand of them or 8 MiB, and on a cluster in one for
// every server. Each is sent once: after a lost reply its error is returned, and it may or may not stand there.
func (b *Broker) Publish(ctx context.Context, messages []broker.Outgoing) []error {
	p := &publishing{broker: b, messages: messages, errs: make([]error, len(messages))}
	client, unusable := b.pool()
	p.client = client
	for i := range messages {
		problem := messages[i].Problem()
		if problem == nil {
			problem = unusable
		}
		if problem != nil {
			p.errs[i] = fmt.Errorf("publish to %s: %w", messages[i].To, problem)
			continue
		}
		p.add(ctx, i)
	}
	p.send(ctx)
	return p.errs
}

// publishing is one call of Publish.
type publishing struct {
	broker   *Broker
	client   redis.UniversalClient
	messages []broker.Outgoing
	errs     []error
	// down is why no connection can be made. Nothing more is sent then.
	down error

	// What follows is the next pipeline. waiting are the script calls that have room left, by delay set.
	writes   []*write
	waiting  map[string]*write
	n, bytes int
}

// write is one command, and the messages that it writes.
type write struct {
	args    []any
	indexes []int
	bytes   int
	command *redis.Cmd
}

// add puts a message into the pipeline. What is full is sent first.
func (p *publishing) add(ctx context.Context, i int) {
	m := &p.messages[i]
	size := len(m.Body)
	for _, h := range m.Headers {
		size += len(h.Name) + len(h.Value)
	}
	if p.n == batchMessages || p.n > 0 && p.bytes+size > batchBytes {
		p.send(ctx)
	}
	p.n, p.bytes = p.n+1, p.bytes+size
	if !m.Waits() {
		p.writes = append(p.writes, &write{args: p.broker.publication(m), indexes: []int{i}})
		return
	}
	member, err := p.broker.waitingMember(m)
	if err != nil {
		p.errs[i] = fmt.Errorf("publish to %s: delayed member: %w", m.To, err)
		return
	}
	w := p.waiting[m.DelaySet]
	if w == nil || len(w.indexes) == callEntries || w.bytes+len(member) > callBytes {
		w = &write{args: afterScript.args(2, p.broker.ResolveKey(m.DelaySet))}
		p.writes = append(p.writes, w)
		if p.waiting == nil {
			p.waiting = make(map[string]*write)
		}
		p.waiting[m.DelaySet] = w
	}
	w.args, w.indexes, w.bytes = append(w.args, delayMilliseconds(m.Delay), member), append(w.indexes, i), w.bytes+len(member)
}

// send sends the pipeline, and once more what met a server without its scripts and has therefore not been carried out.
func (p *publishing) send(ctx context.Context) {
	writes := p.writes
	p.writes, p.n, p.bytes = nil, 0, 0
	clear(p.waiting)
	p.pipeline(ctx, writes)
	var again []*write
	for _, w := range writes {
		if w.command != nil && isNoScript(w.command.Err()) {
			again = append(again, w)
		}
	}
	if len(again) > 0 && loadScripts(ctx, p.client) == nil {
		p.pipeline(ctx, again)
	}
	for _, w := range writes {
		p.answer(w)
	}
}

func (p *publishing) pipeline(ctx context.Context, writes []*write) {
	if p.down == nil {
		p.down = ctx.Err()
	}
	if p.down != nil || len(writes) == 0 {
		return
	}
	pipe := p.client.Pipeline()
	for _, w := range writes {
		w.command = pipe.Do(ctx, w.args...)
	}
	_, err := pipe.Exec(ctx) // each command has its own error
	if unreached := (*dialError)(nil); errors.As(err, &unreached) {
		p.down = err
	}
}

// answer tells each message of the command how it went.
func (p *publishing) answer(w *write) {
	err := p.down
	var statuses []any
	if w.command != nil {
		err = w.command.Err()
		statuses, _ = w.command.Val().([]any)
	}
	for i, index := range w.indexes {
		failure := err
		// Only the script answers with a list: one status for each of its members.
		if failure == nil && i < len(statuses) {
			if text, _ := statuses[i].(string); text != "done" {
				failure = serverError(text)
			}
		}
		if failure != nil {
			p.errs[index] = fmt.Errorf("publish to %s at %s: %w", p.messages[index].To, p.broker.Address(), failure)
		}
	}
}

// publication is the command that writes the message at once.
func (b *Broker) publication(m *broker.Outgoing) []any {
	key := b.ResolveKey(m.To.Key())
	if m.To.Structure() != broker.StructureStream {
		command := "LPUSH"
		switch {
		case m.To.Sharded():
			command = "SPUBLISH"
		case m.To.Structure() == broker.StructureChannel:
			command = "PUBLISH"
		}
		e := newEnvelope(m.Headers, m.Body)
		return []any{command, key, e.seal()}
	}
	args := append(make([]any, 0, 8+2*len(m.Headers)), "XADD", key)
	switch {
	case m.MaxLen > 0:
		args = append(args, "MAXLEN", "~", m.MaxLen)
	case m.MinID != "":
		args = append(args, "MINID", "~", m.MinID)
	}
	args = append(args, "*", fieldPayload, m.Body)
	for _, h := range m.Headers {
		args = append(args, headerPrefix+h.Name, h.Value)
	}
	return args
}

// publishedKey begins the key of a member that was published and not taken from anywhere.
const publishedKey = "after|"

// waitingMember is the message as it stands in a delay set. No two are alike, however equal the messages are.
func (b *Broker) waitingMember(m *broker.Outgoing) ([]byte, error) {
	key := publishedKey + b.token + "|" + strconv.FormatUint(b.published.Add(1), 10)
	if m.To.Structure() == broker.StructureList {
		e := newEnvelope(m.Headers, m.Body)
		return e.sealMember(key), nil
	}
	fields := make([]broker.Field, 0, 1+len(m.Headers))
	fields = append(fields, broker.Field{Name: []byte(fieldPayload), Value: m.Body})
	fields = appendLines(fields, headerPrefix, m.Headers...)
	return sealStreamMember(key, fields)
}
