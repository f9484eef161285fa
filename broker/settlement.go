package broker

import "time"

// Action is what a [Settlement] does.
type Action uint8

// The actions. Each is one atomic step on the server, fenced by owner and delivery count (but for Ack, which needs no
// fence): it does nothing unless the entry is still pending, owned by this consumer and at the delivery count that it
// was handed out with.
const (
	// Ack acknowledges the entry.
	Ack Action = iota + 1
	// Copy appends the message again, with Edits, and acknowledges the entry.
	Copy
	// Delay puts the message, with Edits, into the delay set, due Delay from now by the server's clock, and acknowledges
	// the entry.
	Delay
	// Bury appends the message, with Edits and Burial, to Target and acknowledges the entry.
	Bury
	// Keep leaves the entry pending under this consumer, with the delivery count Count and idle time zero.
	Keep
	// Defer puts the message off for a process that knows its task or its version: into the delay set or, without one,
	// into the set that the source keeps for this, with Edits and the header unknown-since (the server's time, set once).
	// It is due after Delay at first and then as long again as it has been unknown, at most 5 minutes. Where
	// unknown-since is Limit ago or more nothing is done, and the result is Overdue.
	Defer
	// Unpark is Copy for an entry that was kept with [Keep] and whose body is no longer in hand: the server copies it
	// from the stream. The Delivery holds ID and Count only.
	Unpark
)

var actionNames = [...]string{"none", "ack", "copy", "delay", "bury", "keep", "defer", "unpark"}

// String returns the name that logs use.
func (a Action) String() string { return actionNames[a] }

// Settlement is one step that ends a delivery. The engine fills in what to do; [Subscription.Settle] sets Result and
// Err.
type Settlement struct {
	Delivery *Delivery
	Action   Action
	// Edits are how the headers of the copy, the delayed message or the dead letter differ from the entry's.
	Edits Edits
	// Delay is how long from now, for Delay and Defer. It is never negative.
	Delay time.Duration
	// Limit is how long a message may stay unknown, for Defer.
	Limit time.Duration
	// Target is the full key of the dead letter, for Bury.
	Target string
	// Burial is what the dead letter says, for Bury. At is set by the server.
	Burial *Burial
	// Count is the delivery count that Keep stores.
	Count int64
	// Repeated is set by Settle where a try ended in an error and may have been carried out all the same (its reply was
	// lost): Gone is then what it left. A try that the server refused, or that never reached it, does not count. The
	// engine keeps it from one try to the next.
	Repeated bool
	// Written is set by Settle where a settlement takes several steps and the message stands at its target: only the
	// acknowledgement is missing. The engine keeps it from one try to the next.
	Written bool

	Result Result
	Err    error
}

// Edits changes headers: those named in Remove go, those in Set replace their name's value or are added. A message
// without message-id gets one besides (see [Delivery.MessageID]).
type Edits struct {
	Set    []HeaderLine
	Remove []string
}

// Result is how a settlement ended.
type Result uint8

// The results.
const (
	// Done: the step was carried out.
	Done Result = iota + 1
	// Lost: the entry is somebody else's by now, or was handed out anew; nothing was done.
	Lost
	// Gone: the entry is no longer pending (settled before, by a resent command perhaps); nothing was done.
	Gone
	// Vanished: the entry was deleted or trimmed. For Unpark, whose body is not in hand, it was acknowledged; for Keep
	// nothing was done, and the engine settles the entry with a copy from the body in hand.
	Vanished
	// Overdue: a message was to be put off that has been unknown for too long; nothing was done.
	Overdue
	// Unheard: the copy or the dead letter was published on a channel, and nobody received it.
	Unheard
)

var resultNames = [...]string{"failed", "done", "lost", "gone", "vanished", "overdue", "unheard"}

// String returns the name that logs use.
func (r Result) String() string { return resultNames[r] }
