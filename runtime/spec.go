// Package streamrt is what generated code calls. A service author rarely writes it out: streamgen turns each
// //stream:subscriber directive into one Subscribe call, and an app mounts the value that it returns.
//
// The folder is named runtime; the package clause is streamrt, so that nobody's errors or imports meet a second
// package called runtime.
package streamrt

import "time"

// GeneratedV1 is the version handshake between generated files and this package. A generated file refers to the
// constant of the version it was written for; a release whose generated code must look different removes the constant,
// so that stale files stop compiling at a line that says to run go generate again.
const GeneratedV1 = true

// The units that generated files write durations in, so that they import nothing but this package.
const (
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
	Hour        = time.Hour
)

// Spec is one directive as data: what belongs to the message. What belongs to operations (caps, dead letter,
// concurrency) is given where the subscription is mounted. The zero value of every field but Name means "not given".
type Spec struct {
	// Name stands in logs, metrics and dead letters: package.Func or package.Type.Method unless the directive says name=.
	Name string
	// Stream is the key of the source stream. Exactly one of Stream, List, Channel and Pattern is given.
	Stream string
	// List is the key of the source list.
	List string
	// Channel is the name of the source channel.
	Channel string
	// Pattern is a glob over the names of the source channels.
	Pattern string
	// Sharded subscribes to Channel where its slot lives (SSUBSCRIBE), not to a broadcast of the whole cluster.
	Sharded bool
	// Reliable keeps what is taken from List in an in-flight list until it is settled, so that a crash loses nothing.
	Reliable bool
	// Group is the consumer group; empty means the broker's DefaultGroup.
	Group string
	// Task makes the subscription take only messages whose task header is this name. Several subscriptions may share one
	// stream and group so.
	Task string
	// Foreign says that Stream belongs to others: nothing is ever appended to it, trimmed or deleted. Retries stay pending.
	Foreign bool
	// Claim makes the subscription take pending entries of its group back once they have been idle for this long.
	Claim time.Duration
	// Reclaim makes the subscription read nothing new and take only entries of its group that have been idle for this long
	// and whose owner is dead. It stands beside a subscription that reads the same stream and group.
	Reclaim time.Duration
	// Start is where a group that does not exist yet begins: "0" (the default), "$" or an entry id.
	Start string
	// DelaySet is the sorted set that keeps delays durable.
	DelaySet string
	// DelayTTL expires an abandoned delay set this long after its last due time.
	DelayTTL time.Duration
	// Block is the longest wait of one read; zero means 5 s.
	Block time.Duration
	// Timeout is the deadline of the handler's context; zero means none.
	Timeout time.Duration
}
