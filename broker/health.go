package broker

import "time"

// Check is what a subscription does with the server over and over, as long as both of them are well. Its health is told
// from when each was last done.
type Check string

// The checks.
const (
	// CheckRead is the wait for messages. The engine takes the pulse of what [Subscription.Read] returns; a transport whose
	// Read can succeed without the server (channels) takes that of its connection besides.
	CheckRead Check = "read"
	// CheckSweep is what brings messages back: the pass that recovers what dead owners left, and the mover of due delays.
	CheckSweep Check = "sweep"
	// CheckHeartbeat is what shows the peers that this consumer is alive.
	CheckHeartbeat Check = "heartbeat"
	// CheckSettle is the writing of outcomes. It is the engine's own.
	CheckSettle Check = "settle"
)

// Pulse takes how a round went: nil where the server has done what was asked, else why not. It costs next to nothing and
// is safe for concurrent use.
type Pulse = func(error)

// Pulses makes the pulse of one loop. In peace at most every passes between two rounds.
type Pulses func(check Check, every time.Duration) Pulse

// Of is p(check, every), and a pulse that nobody takes where p is nil.
func (p Pulses) Of(check Check, every time.Duration) Pulse {
	if p == nil {
		return func(error) {}
	}
	return p(check, every)
}
