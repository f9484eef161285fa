package brokertest

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// maxAttempts is the cap of the cases that have one, and the attempt that succeeds where nothing ends the failing.
const maxAttempts = 3

// caps is what a mount limits its messages by.
type caps struct {
	name            string
	capped, letters bool
}

var allCaps = []caps{
	{name: "no cap"},
	{name: "cap", capped: true},
	{name: "dead letter", letters: true},
	{name: "cap and dead letter", capped: true, letters: true},
}

// limit is how many attempts a message has. A dead letter without a cap takes the first failure.
func (c caps) limit() int {
	switch {
	case c.capped:
		return maxAttempts
	case c.letters:
		return 1
	}
	return math.MaxInt
}

// scenario is one case of the matrix: a message that a subscription handles in one way under one policy.
type scenario struct {
	claims bool
	ending ending
	caps   caps
}

// senseless are the combinations that cannot be, and why.
var senseless = []struct {
	claims bool
	kept   keeping
	reason string
}{
	{claims: false, kept: byClaim, reason: "a plain subscription has no claim time after which an entry would come back"},
	{claims: true, kept: inMemory, reason: "a claiming subscription leaves the entry pending on the server and parks nothing"},
}

// casesPerServer is 2 kinds of subscription × 11 endings × 4 policies, less the 2 × 4 that make no sense.
const casesPerServer = 80

// scenarios are all cases that make sense.
func scenarios() []scenario {
	var all []scenario
	for _, claims := range []bool{false, true} {
		for _, e := range endings {
			if isSenseless(claims, e.kept) {
				continue
			}
			for _, c := range allCaps {
				all = append(all, scenario{claims, e, c})
			}
		}
	}
	return all
}

func isSenseless(claims bool, kept keeping) bool {
	for _, s := range senseless {
		if s.claims == claims && s.kept == kept {
			return true
		}
	}
	return false
}

func (s scenario) name() string {
	source := "plain"
	if s.claims {
		source = "claim"
	}
	return source + "/" + s.ending.name + "/" + s.caps.name
}

// handler fails at every run, but where nothing would ever end that, the last one succeeds.
func (s scenario) handler() *recorder {
	return &recorder{answer: func(ctx context.Context, n int, _ call) outcome.HandlerOutcome {
		if s.ending.fails && n >= maxAttempts && s.caps.limit() == math.MaxInt {
			return outcome.Ack()
		}
		return s.ending.answer(ctx)
	}}
}

// keys are what a case uses on the server, all its own.
type keys struct{ stream, group, delaySet, deadLetter string }

func newKeys(prefix string, n int) keys {
	stream := prefix + "." + strconv.Itoa(n)
	return keys{stream: stream, group: "g", delaySet: stream + ".delayed", deadLetter: stream + ".dlq"}
}

func (s scenario) spec(name string, k keys) streamrt.Spec {
	spec := streamrt.Spec{Name: name, Stream: k.stream, Group: k.group, Timeout: s.ending.timeout}
	if s.claims {
		spec.Claim = claimTime
	}
	if s.ending.kept == inSet {
		spec.DelaySet = k.delaySet
	}
	return spec
}

func (s scenario) options(k keys) []app.MountOption {
	options := []app.MountOption{app.Backoff(app.Exponential{Initial: firstBackoff, NoJitter: true})}
	if s.caps.capped {
		options = append(options, app.MaxAttempts(maxAttempts))
	}
	if s.caps.letters {
		options = append(options, app.DeadLetter(k.deadLetter))
	}
	return options
}

// allBytes holds every byte, and with it NUL, CR LF and what is no UTF-8.
var allBytes = func() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}()

// The message of every case.
var (
	payload    = []byte(allBytes + "\r\n\x00" + strings.Repeat("\xff", 3))
	appHeaders = map[string]string{allBytes: allBytes, "app": "\r\n\x00", "empty": ""}
)

func headerOptions() []broker.PublishOption {
	var options []broker.PublishOption
	for _, name := range sortedKeys(appHeaders) {
		options = append(options, broker.Header(name, appHeaders[name]))
	}
	return options
}
