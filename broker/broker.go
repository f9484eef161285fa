// Package broker is the contract between the engine that runs handlers and the transport that holds the messages:
// what is read, how each delivery is settled, and what a transport can do. Service authors meet the destinations and
// options of publishing and the header names; the rest is for those who write or test a transport.
package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A Broker is one server, or one cluster, that subscriptions read from and publishers write to. All methods are safe
// for concurrent use.
type Broker interface {
	// Address names the server in errors and logs, without user or password.
	Address() string
	// Resolve fills in what the broker decides (the default group, the key prefix) and returns the source with full
	// keys. It does no I/O.
	Resolve(Source) Source
	// ResolveKey returns the full key of a destination, prefix included.
	ResolveKey(key string) string
	// Problems returns what is wrong with the broker's own configuration (a bad URL, say). It does no I/O.
	Problems() []error
	// Connect makes sure that the server answers. It is called again after an error until the start-up time is over, and
	// returns nil at once when a connection stands.
	Connect(ctx context.Context) error
	// Inspect reads what the keys hold and returns one error for each that holds something else than it is used as.
	Inspect(ctx context.Context, keys []KeyUse) []error
	// Subscribe prepares one subscription: its consumer group exists when it returns.
	Subscribe(ctx context.Context, config Config) (Subscription, error)
	// Publish sends messages in as few round trips as it can, connecting at the first use, and returns one error for each.
	// A nil error means that the message was written once; after an error that came from the connection it may have been.
	// No message is sent a second time.
	Publish(ctx context.Context, messages []Outgoing) []error
	// Measure reads how much stands at each source, all in one round trip. The result has one element for each, or is nil
	// where the server did not answer. The error says why numbers are unknown that could be known.
	Measure(ctx context.Context, sources []Measurand) ([]Measures, error)
	// Close ends the connections. Subscriptions are closed before it.
	Close(ctx context.Context) error
}

// Structure is the kind of Redis key that a subscription reads or a publisher writes.
type Structure uint8

// The structures.
const (
	StructureStream Structure = iota + 1
	StructureList
	StructureChannel
	// StructurePattern is a glob over channels. It is read and never published to.
	StructurePattern
	// StructureSortedSet is what a delay set is. Nothing reads or publishes to one directly.
	StructureSortedSet
)

var structureNames = [...]string{"none", "stream", "list", "channel", "pattern", "sorted set"}

// String returns the name that errors use.
func (s Structure) String() string { return structureNames[s] }

// Source is where a subscription reads, as its directive says. After [Broker.Resolve] the keys are full keys.
type Source struct {
	Structure Structure
	Key       string
	// Group is the consumer group of a stream; "" on everything else.
	Group string
	// Reliable keeps what is taken from a list in a list in flight until it is settled.
	Reliable bool
	// Sharded reads a channel with SSUBSCRIBE.
	Sharded bool
	// Foreign: the stream belongs to others; nothing is ever written to it, and what is to be retried stays pending.
	Foreign bool
	// Defers: messages may have to be put off for a process that knows them, see [Defer].
	Defers bool
	// OutRetry is the full name of the channel that takes the copies of a pattern's messages.
	OutRetry string
	// Claim makes pending entries come back once they have been idle for so long; 0 is off.
	Claim time.Duration
	// Reclaim makes the subscription read nothing new and take only entries that have been idle for so long and whose
	// owner is dead; 0 is off.
	Reclaim time.Duration
	// Start is where a new group begins.
	Start string
	// DelaySet is the key of the sorted set that keeps delays, "" for none.
	DelaySet string
	// DelayTTL expires DelaySet so long after its last due time; 0 is never.
	DelayTTL time.Duration
	// Block is the longest wait of one read.
	Block time.Duration
}

// KeyUse is one key that a mount uses, for [Broker.Inspect].
type KeyUse struct {
	// Mount names the mount in the error.
	Mount string
	// Role says what the key is to the mount: "source", "dead letter", "delay set".
	Role      string
	Key       string
	Structure Structure
}

// Config is what [Broker.Subscribe] needs of a mount.
type Config struct {
	// Name is the subscription's name, for logs and errors.
	Name string
	// Source has been resolved.
	Source Source
	// DeadLetter is the full key of the dead letter, "" for none. A delayed entry that cannot be decoded goes there.
	DeadLetter string
	Logger     *slog.Logger
	// Discarded counts a message that is gone without a handler having settled it: why is one of the contract's reasons.
	Discarded func(why string)
	// Buried counts a message that the transport itself buried.
	Buried func(reason string)
	// Retain says what of the source, a stream, may be removed once every group has acknowledged it.
	Retain Retention
	// Letters are the bounds of dead letters by their full keys. One that is not there has none.
	Letters map[string]Retention
	// Trimmed counts what retention removed from a key. It is needed where Retain or Letters say something.
	Trimmed func(key string, n int64)
	// PackFailures asks a claiming source to keep failures and losses apart in the delivery count, as a plain one does.
	PackFailures bool
	// Holder knows what is in hand.
	Holder Holder
	// Pulse gives a loop of the transport where to say how each of its rounds went, see [Check]. nil is for nobody who
	// asks.
	Pulse Pulses
}

// Holder is what the engine lets a transport know of the deliveries in hand: those that wait for a slot, run, are being
// settled or are parked. Its methods are safe for concurrent use.
type Holder interface {
	// Held returns what has been in hand, or was last returned by Held, at least so long ago; 0 returns everything and
	// leaves the times as they are.
	Held(since time.Duration) []Held
	// Lost tells that entries which were held with these counts belong to another consumer by now, or were handed out anew:
	// the context of a handler that runs with one ends with the cause that says so, and it is held no longer. A later
	// hand-out of the same entry is another one. Of one whose count changes, or has changed since Held returned it, nothing
	// is believed: it may have looked like somebody else's for that alone.
	Lost(lost []Held)
}

// ErrClosed is returned by Read once Stop has been called: nothing more will be read.
var ErrClosed = errors.New("broker: the subscription is closed")

// A Subscription is one open source. The engine calls Read from one goroutine and Settle from one other, and runs each
// of Tasks in its own; Stop may come at any time.
//
// Its life: Read and Settle and the tasks run; Stop ends reading and makes Read return ErrClosed; the tasks' context
// ends; what handlers still settle is settled; Release hands back the rest and frees the connections.
type Subscription interface {
	// Capabilities says what the source can do. It never changes.
	Capabilities() Capabilities
	// Read waits for deliveries, at most as long as the source's block, and returns as many as are wanted, or fewer. None
	// and nil is a read that ended empty. After an error the engine waits and calls again.
	Read(ctx context.Context, want Want) ([]*Delivery, error)
	// Stop ends reading: it returns after the read in progress has ended, and what that read still brought is returned by
	// Read before ErrClosed.
	Stop(ctx context.Context)
	// Settle carries out the settlements, in as few round trips as it can, and sets each one's Result and Err. One that
	// has an Err has had no effect that anybody can see, or only effects that repeating it does not double.
	Settle(ctx context.Context, batch []*Settlement)
	// Tasks are the loops that the source needs besides reading (moving due delays, say). Each runs until its context
	// ends and survives every error of the server by itself.
	Tasks() []Task
	// Release hands back everything that the server lists under this consumer and removes the consumer. held are the
	// deliveries in hand that were not settled, parked ones included.
	Release(ctx context.Context, held []Held) error
}

// Want is how many deliveries a read may return.
type Want struct {
	// New bounds entries that nobody has had; at least 1.
	New int
	// Back bounds entries that are taken back from an owner, or are tried again: no more than there are free handler
	// slots, so that none of them is charged with an owner that never began with it. May be 0.
	Back int
	// Freed, unless nil, gets a token when there is more room than these numbers say. A read that has nothing to wait for but
	// a free slot ends then.
	Freed <-chan struct{}
}

// Task is a loop of a subscription: its name for logs, and what it does until ctx ends.
type Task struct {
	Name string
	Run  func(ctx context.Context)
	// UntilRelease: the task goes on after Stop, while the last handlers run, until just before Release.
	UntilRelease bool
}

// Capabilities is what a source can do, which is what decides how an outcome is settled.
type Capabilities struct {
	// Acks: a message stays on the server until it is settled. Without it a message is gone as soon as it is read: Ack and
	// Keep do nothing, Copy and Bury only write, and a delay is kept in the process, body and all.
	Acks bool
	// Refetches: the server can copy an entry whose body is no longer in hand ([Unpark]).
	Refetches bool
	// InPlace: no copy is ever made; what is to be retried stays pending and runs again in the process that has it.
	InPlace bool
	// Addressee is what a copy carries in its header retry-group, so that nobody else takes it for a message of theirs; ""
	// where copies go to whoever reads them.
	Addressee string
	// KeepsPending: an entry whose retry is due later may stay pending and comes back by itself after Claim (claiming).
	KeepsPending bool
	// Claim is how long that takes.
	Claim time.Duration
	// DelaySet: delays of any length are kept durable.
	DelaySet bool
	// PacksFailures: the delivery count of a pending entry is 1000 × failures + losses (+ 1 while it is in hand). Where it
	// is false the count is the server's own, crashes included, and counts as attempts.
	PacksFailures bool
	// InSteps: an outcome that writes to another key is several steps, because the keys are in different cluster slots.
	InSteps bool
}

// Delivery is one entry in hand. It is immutable but for what its doc comments say.
type Delivery struct {
	// ID is the entry's id.
	ID string
	// Count is the server's delivery count with which the entry was handed out. It fences every settlement: a Settle
	// with another count does nothing.
	Count int64
	// HandedOut is when this process got the entry. A settlement that finds it no longer pending is believed only where
	// somebody may have taken it since.
	HandedOut time.Time
	// Body is the payload; HasBody tells an empty one from none.
	Body    []byte
	HasBody bool
	// Headers are the message's headers in the order they stand in the entry; of a repeated name the last one counts.
	Headers []HeaderLine
	// Burial is what the entry says of an earlier burial, nil where it is no dead letter.
	Burial *Burial
	// Fields are all the fields of a stream entry as they stand there, repeated names and order kept.
	Fields []Field
	// Raw is a message of a list or a channel as it stood there, envelope included; what is written again is made from it.
	// It is nil on streams.
	Raw []byte
	// Fault is why the entry cannot be taken apart; the entry is malformed then. nil otherwise.
	Fault error
	// Newer: a later version of this library wrote the message. It is put off for a process that can read it.
	Newer bool
	// Channel is the channel that a message of a pattern came from, "" on everything else.
	Channel string
}

// Field is one field of a stream entry. The slices belong to the delivery and are not changed.
type Field struct{ Name, Value []byte }

// HeaderLine is one header of a message.
type HeaderLine struct{ Name, Value string }

// Header returns the value of the named header and whether the message has it.
func (d *Delivery) Header(name string) (string, bool) { return lastHeader(d.Headers, name) }

func lastHeader(headers []HeaderLine, name string) (string, bool) {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Name == name {
			return headers[i].Value, true
		}
	}
	return "", false
}

// MessageID returns the message's id: its header, else the id of this entry, which then becomes the header of the
// first copy or dead letter.
func (d *Delivery) MessageID() string {
	if id, ok := d.Header(HeaderMessageID); ok && id != "" {
		return id
	}
	return d.ID
}

// Held is a delivery that is in hand or is handed back.
type Held struct {
	ID string
	// Delivery is the whole delivery where its body is still in hand. It is given to Release only.
	Delivery *Delivery
	// Started: its handler has begun.
	Started bool
	// Settling: its outcome is being written, and may have been carried out by now.
	Settling bool
	// Count is the delivery count that the entry gets back.
	Count int64
	// Moves is the holder's own: it tells a count from the same one that the entry had before. A transport hands it back as
	// it is, 0 where it does not know it.
	Moves uint32
	// Due is how long the entry should still rest before a peer takes it; 0 is at once.
	Due time.Duration
}
