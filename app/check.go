package app

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// The least values of a directive's durations. Shorter ones would be sent to the server as 0, which means for ever or
// at once.
const (
	leastDuration = time.Millisecond
	leastClaim    = time.Second
)

const (
	roleSource     = "source"
	roleDeadLetter = "dead letter"
	roleDelaySet   = "delay set"
)

// problems collects everything that keeps an app from starting.
type problems []error

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Errorf("app: "+format, args...))
}

// mount adds a problem of one mount. The text says what is wrong and then how to mend it.
func (p *problems) mount(name, format string, args ...any) {
	*p = append(*p, fmt.Errorf("app: mount %s: %s", name, fmt.Sprintf(format, args...)))
}

// check finds everything that can be known to be wrong without a server. Comparisons between mounts are made on full
// keys, per server.
func (a *App) check() problems {
	var p problems
	if a.grace < 0 {
		p.add("Grace(%s) is negative; give 0 or more", a.grace)
	}
	if a.startTimeout < 0 {
		p.add("StartTimeout(%s) is negative; give 0 or more", a.startTimeout)
	}
	mounts := 0
	for _, m := range a.brokers {
		mounts += len(m.mounts)
		if m.broker == nil {
			p.add("Broker was given nil; give it a broker, redisbroker.Standalone(url) for example")
		}
	}
	if mounts == 0 {
		p.add("nothing is mounted; call Mount on what App.Broker returns (a program that only publishes needs no Run)")
	}
	// Two brokers on one server share its keys.
	servers := map[string][]*mount{}
	var order []string
	for _, b := range a.groups() {
		for _, err := range b.broker.Problems() {
			p = append(p, fmt.Errorf("app: broker %s: %w", b.broker.Address(), err))
		}
		var sound []*mount
		for i, mt := range b.mounts {
			if mt.subscription.IsZero() {
				p.mount(fmt.Sprintf("%d on %s", i+1, b.broker.Address()),
					"the subscription is zero; mount the variable that streamgen generated for the handler")
				continue
			}
			mt.resolve()
			mt.checkSpec(&p)
			mt.checkPolicy(&p)
			sound = append(sound, mt)
		}
		address := b.broker.Address()
		if servers[address] == nil {
			order = append(order, address)
		}
		servers[address] = append(servers[address], sound...)
	}
	for _, address := range order {
		checkTogether(&p, servers[address])
	}
	return p
}

// group is one broker with all that is mounted on it, also where App.Broker was called twice with it.
type group struct {
	broker broker.Broker
	mounts []*mount
}

func (a *App) groups() []*group {
	var groups []*group
next:
	for _, m := range a.brokers {
		if m.broker == nil {
			continue
		}
		for _, g := range groups {
			if g.broker == m.broker {
				g.mounts = append(g.mounts, m.mounts...)
				continue next
			}
		}
		groups = append(groups, &group{m.broker, append([]*mount(nil), m.mounts...)})
	}
	return groups
}

// checkSpec looks at what the directive says. streamgen refuses most of this; a Spec may be written by hand.
func (mt *mount) checkSpec(p *problems) {
	spec, name := mt.subscription.Spec(), mt.name()
	if name == "" {
		p.mount(fmt.Sprintf("of %s %q", mt.source.Structure, mt.source.Key), "it has no name; set Spec.Name")
	}
	if err := mt.subscription.Err(); err != nil {
		p.mount(name, "%v", err)
	}
	mt.checkSource(p)
	atLeast := func(key string, d, least time.Duration) {
		if d != 0 && d < least {
			p.mount(name, "%s=%s is too short; give at least %s, or leave it out", key, d, least)
		}
	}
	atLeast("block", spec.Block, leastDuration)
	atLeast("claim", spec.Claim, leastClaim)
	atLeast("reclaim", spec.Reclaim, leastClaim)
	if spec.Reclaim != 0 && spec.Claim != 0 {
		p.mount(name, "claim=%s and reclaim=%s exclude each other: claiming takes back what is idle, too; leave one out", spec.Claim, spec.Reclaim)
	}
	atLeast("timeout", spec.Timeout, leastDuration)
	atLeast("delay-ttl", spec.DelayTTL, leastDuration)
	if spec.DelayTTL != 0 && spec.DelaySet == "" {
		p.mount(name, "delay-ttl=%s has no set to expire; add delay-set=KEY, or leave it out", spec.DelayTTL)
	}
	if !validStart(mt.source.Start) {
		p.mount(name, "start=%s is no place in a stream; give 0, $ or an entry id such as 1526919030474-0", mt.source.Start)
	}
}

// checkPolicy looks at the options of the mount.
func (mt *mount) checkPolicy(p *problems) {
	o, name := &mt.policy, mt.name()
	if o.hasMaxAttempts && o.maxAttempts < 1 {
		p.mount(name, "MaxAttempts(%d) leaves no attempt; give at least 1, or leave it out for no cap", o.maxAttempts)
	}
	if o.hasMaxDeliveries && o.maxDeliveries < 1 {
		p.mount(name, "MaxDeliveries(%d) leaves no delivery; give at least 1, or leave it out", o.maxDeliveries)
	}
	if o.prefetch < 0 {
		p.mount(name, "Prefetch(%d) is negative; give 0 or more", o.prefetch)
	}
	if o.concurrency < 1 {
		p.mount(name, "Concurrency(%d) leaves no handler slot; give at least 1", o.concurrency)
	}
	if o.maxParked < 1 {
		p.mount(name, "MaxParked(%d) leaves no place for a delay; give at least 1", o.maxParked)
	}
	if o.hasDeadLetter && o.deadLetter == "" {
		p.mount(name, `DeadLetter("") names no key; give a key, or leave it out for no dead letter`)
	}
	mt.checkRetention(p)
	if o.hasUnknownDelay && o.unknownDelay < leastDuration {
		p.mount(name, "UnknownTaskDelay(%s) is too short; give at least %s, or leave it out", o.unknownDelay, leastDuration)
	}
	if o.hasUnknownLimit && o.unknownTimeout < leastDuration {
		p.mount(name, "UnknownTaskTimeout(%s) is too short; give at least %s, or leave it out", o.unknownTimeout, leastDuration)
	}
	if o.hasCodec && o.codec == nil {
		p.mount(name, "WithCodec(nil) has no codec; give one, or leave it out for JSON")
	}
	for _, f := range o.middleware {
		if f == nil {
			p.mount(name, "Use(nil) has no middleware; give a function")
		}
	}
	if o.backoff == nil {
		p.mount(name, "Backoff(nil) has no policy; give one, or leave it out for the default")
		return
	}
	if problem := o.backoff.problem(); problem != "" {
		p.mount(name, "%s", problem)
		return
	}
	mt.checkDelayTTL(p)
}

// checkDelayTTL compares the set's expiry with the longest delay that can be known now.
func (mt *mount) checkDelayTTL(p *problems) {
	ttl := mt.source.DelayTTL
	if ttl < leastDuration || mt.source.DelaySet == "" {
		return
	}
	failures := -1
	if n := mt.policy.attempts(); n > 0 {
		failures = n - 1
	}
	if longest, known := mt.policy.backoff.longest(failures); known && ttl < longest {
		p.mount(mt.name(), "delay-ttl=%s is shorter than the longest wait of Backoff, %s; make it longer, or set Exponential.Max", ttl, longest)
	}
}

// hasHashTag reports whether a cluster hashes only a part of the key.
func hasHashTag(key string) bool {
	open := strings.IndexByte(key, '{')
	return open >= 0 && strings.IndexByte(key[open+1:], '}') > 0
}

// validStart reports whether s is 0, $, or an id with or without its second part.
func validStart(s string) bool {
	if s == "$" {
		return true
	}
	ms, seq, two := strings.Cut(s, "-")
	return isUint64(ms) && (!two || isUint64(seq))
}

func isUint64(s string) bool {
	if s == "" {
		return false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		digit := uint64(s[i] - '0')
		if n > (math.MaxUint64-digit)/10 {
			return false
		}
		n = n*10 + digit
	}
	return true
}
