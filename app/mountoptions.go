package app

import "time"

// MountOption says how one mount is operated, or, given to [App.Broker], all mounts of a broker.
type MountOption interface{ applyMount(*policy) }

// policy is what the options of a mount add up to. Unset numbers are their defaults; what is wrong with a value is
// found at the start, with everything else.
type policy struct {
	maxAttempts      int
	hasMaxAttempts   bool
	deadLetter       string
	hasDeadLetter    bool
	letters          retention
	retain           retention
	hasRetain        bool
	backoff          BackoffPolicy
	maxDeliveries    int
	hasMaxDeliveries bool
	concurrency      int
	prefetch         int
	hasPrefetch      bool
	maxParked        int
	codec            Codec
	hasCodec         bool
	outRetry         string
	hasOutRetry      bool
	unknownDelay     time.Duration
	hasUnknownDelay  bool
	unknownTimeout   time.Duration
	hasUnknownLimit  bool
	middleware       []func(Handler) Handler
}

func newPolicy(defaults, options []MountOption) policy {
	p := policy{backoff: Exponential{}, concurrency: 10, maxParked: 10_000}
	for _, list := range [2][]MountOption{defaults, options} {
		for _, option := range list {
			if option != nil {
				option.applyMount(&p)
			}
		}
	}
	return p
}

// wait asks the backoff policy.
func (p *policy) wait(attempt int, err error) time.Duration { return p.backoff.delay(attempt, err) }

// attempts is how many runs a message has, 0 for any number: a dead letter without a cap takes the first failure.
func (p *policy) attempts() int {
	if !p.hasMaxAttempts && p.hasDeadLetter {
		return 1
	}
	return p.maxAttempts
}

// defaultMaxDeliveries is the cap on losses where there is a dead letter to take what exceeds it.
const defaultMaxDeliveries = 5

// deliveries is how many owners a message may outlive, 0 for any number.
func (p *policy) deliveries(claiming bool) int {
	if !p.hasMaxDeliveries && p.hasDeadLetter && !claiming {
		return defaultMaxDeliveries
	}
	return p.maxDeliveries
}

type mountOption func(*policy)

func (f mountOption) applyMount(p *policy) { f(p) }

// MaxAttempts caps how often a message is run: the n-th failure is not retried but dead-lettered with reason
// max_attempts or, without a [DeadLetter], acknowledged with an error in the log. It counts every run that failed, the
// first included; on a claiming subscription the runs that ended with their process, too. By default there is no cap.
func MaxAttempts(n int) MountOption {
	return mountOption(func(p *policy) { p.maxAttempts, p.hasMaxAttempts = n, true })
}

// MaxDeliveries caps how many owners a message may outlive: an entry that was taken from m processes that vanished with
// it in hand (crash, kill) goes to the dead letter with reason max_deliveries, without another run. A failure of the
// handler does not count here, and a loss does not count as an attempt; a graceful stop counts as neither. The default is
// 5 where a [DeadLetter] is set, and no cap otherwise. On a claiming subscription without this option Redis's own
// delivery count is the attempt, crashes included; with it the two are kept apart there, too.
func MaxDeliveries(m int) MountOption {
	return mountOption(func(p *policy) { p.maxDeliveries, p.hasMaxDeliveries = m, true })
}

// DeadLetter names the key that takes what is given up: messages at the cap, those that cannot be decoded, and those
// whose handler answers outcome.DeadLetter. Without a [MaxAttempts] it takes the first failure. By default there is
// none, and such messages are acknowledged with an error in the log.
//
// Everything that is buried is kept, unless [KeepLast] or [KeepFor] say how much: then exactly the newest stay, the oldest
// are removed in the step that buries (what is too old, within a minute) and counted in millrace.trimmed, and the log says
// once that the bound is reached. The bound holds for a dead letter that somebody reads, too: what it removes will not be
// read. The mounts of an app that share a dead letter give it the same.
func DeadLetter(key string, options ...RetainOption) MountOption {
	return mountOption(func(p *policy) {
		p.deadLetter, p.hasDeadLetter, p.letters = key, true, newRetention(options)
	})
}

// Backoff says how long a message waits after an error, a panic or a missed deadline. The default is Exponential{}.
// Retry and RetryAfter bring their own delay, but for an immediate retry from the tenth attempt on where there is no
// cap: it waits as Backoff says.
func Backoff(b BackoffPolicy) MountOption { return mountOption(func(p *policy) { p.backoff = b }) }

// Concurrency is how many messages of the mount are handled at a time, 10 by default. With 1 the order is that of the
// stream for as long as nothing is retried.
func Concurrency(n int) MountOption { return mountOption(func(p *policy) { p.concurrency = n }) }

// Prefetch reads n new messages ahead of the handler slots, so that a slot that becomes free need not wait for the
// server; 0 reads none ahead. What was read ahead is this process's until it is handled or handed back: if the process
// dies, each of those messages is charged with one owner. By default a mount reads as many ahead as its slots
// finish within 5 ms at the pace that they have shown, at most 1,000: none for slow handlers, and none until there is a
// pace. On a plain list what was read ahead is lost with the process, as everything in hand is.
func Prefetch(n int) MountOption {
	return mountOption(func(p *policy) { p.prefetch, p.hasPrefetch = n, true })
}

// MaxParked bounds the messages that wait in memory for their delay, 10,000 by default. Messages in handlers may come to
// wait, too, so no more are taken than still have a place: when n wait, reading pauses. It means nothing where the
// subscription has a delay-set or claims.
func MaxParked(n int) MountOption { return mountOption(func(p *policy) { p.maxParked = n }) }

// WithCodec decodes payloads where the directive names no codec, and given to [App.Broker] also encodes what is
// published, under the codec's name as content-type. Give [JSON], which is the default, [CBOR] or your own. What the codec
// cannot decode is malformed.
func WithCodec(c Codec) MountOption {
	return mountOption(func(p *policy) { p.codec, p.hasCodec = c, true })
}

// OutRetry names the channel that takes the copies of what a pattern's handler wants to have again: a pattern reads many
// channels and is none itself, so that a subscription to a pattern does not start without it. Where the pattern matches
// the channel, a copy keeps its counters and is addressed to the process that failed; where it does not, the copy leaves
// the subscription and starts anew for whoever reads the channel.
func OutRetry(channel string) MountOption {
	return mountOption(func(p *policy) { p.outRetry, p.hasOutRetry = channel, true })
}

// The defaults of UnknownTaskDelay and UnknownTaskTimeout.
const (
	defaultUnknownDelay   = 30 * time.Second
	defaultUnknownTimeout = 6 * time.Hour
)

// UnknownTaskDelay is how long a message is put off at first whose task no handler of the process knows (task= in the
// directive), 30 s by default. Each time it comes back unknown it waits as long again as it has been unknown, at most 5
// minutes. It is no failure: another process that is just being deployed may know the task. Mounts that share a group
// give it once, or all the same.
func UnknownTaskDelay(d time.Duration) MountOption {
	return mountOption(func(p *policy) { p.unknownDelay, p.hasUnknownDelay = d, true })
}

// UnknownTaskTimeout is how long a message may stay unknown, 6 h by default, counted by the server's clock from when it
// was first put off. Whoever reads it after that sends it to the dead letter with reason unknown_task, that of the first
// mount of the group that has one; without one it is acknowledged with an error in the log. Mounts that share a group
// give it once, or all the same.
func UnknownTaskTimeout(d time.Duration) MountOption {
	return mountOption(func(p *policy) { p.unknownTimeout, p.hasUnknownLimit = d, true })
}

// Use puts middleware around the handler: it is called once when the mount starts, and what it returns is called for
// every delivery, concurrently, with the context of the delivery. It must pass on that context or one made from it. Of
// several the first is outermost. A panic in it is a failure of the delivery.
func Use(middleware func(next Handler) Handler) MountOption {
	return mountOption(func(p *policy) { p.middleware = append(p.middleware, middleware) })
}
