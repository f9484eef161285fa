package broker

import "time"

// Measurand is one source whose numbers [Broker.Measure] reads.
type Measurand struct {
	// Source has been resolved.
	Source Source
	// DeadLetter is the full key of the dead letter, "" for none.
	DeadLetter string
}

// Number is a count that may not be known. Unknown is not none.
type Number struct {
	N     int64
	Known bool
}

// Known returns a number that is known.
func Known(n int64) Number { return Number{n, true} }

// Measures is how much stands at a source at one moment. What the source does not have is unknown as well.
type Measures struct {
	// Length is how many entries the stream holds, acknowledged ones included, or how many items wait in the list.
	Length Number
	// Lag is how many entries the group was not given yet. It is unknown where the server cannot tell, as after the deletion
	// of an entry that the group has still before it.
	Lag Number
	// Pending is how many entries were given out and are not acknowledged, over all consumers of the group; of a reliable
	// list how many items are in flight, over all its readers.
	Pending Number
	// Delayed is how many messages wait in the delay set, or in the set of those that are put off.
	Delayed Number
	// Overdue is how long ago the first of them was due, by the server's clock, 0 where none is overdue. HasOverdue tells
	// that it is known.
	Overdue    time.Duration
	HasOverdue bool
	// DeadLetters is how many records the dead letter holds.
	DeadLetters Number
}
