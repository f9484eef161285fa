package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// envWorker holds the order of a worker process. A test program that finds it set is one.
const envWorker = "MILLRACE_CHAOS_WORKER"

// order is everything that a worker has to know.
type order struct {
	// Number is how many workers were started before this one, and Journal the directory of the test's journal.
	Number  int
	Journal string
	// URL is the server's.
	URL string
	// Liveness, Grace and StartTimeout are those of the app. A StartTimeout of zero is not given.
	Liveness, Grace, StartTimeout time.Duration
	Mounts                        []mount
}

// mount is a subscription and its policy. Zero fields are not given.
type mount struct {
	Stream, Group, DelaySet    string
	Claim, Block               time.Duration
	MaxAttempts, MaxDeliveries int
	DeadLetter                 string
	Concurrency, Prefetch      int
	Backoff                    time.Duration
	// Reliable: Stream is the key of a reliable list.
	Reliable bool
}

func (m mount) spec() streamrt.Spec {
	if m.Reliable {
		return streamrt.Spec{Name: m.Stream, List: m.Stream, Reliable: true, DelaySet: m.DelaySet, Block: m.Block}
	}
	return streamrt.Spec{
		Name: m.Stream, Stream: m.Stream, Group: m.Group, DelaySet: m.DelaySet, Claim: m.Claim, Block: m.Block,
	}
}

func (m mount) options() []app.MountOption {
	var options []app.MountOption
	if m.MaxAttempts > 0 {
		options = append(options, app.MaxAttempts(m.MaxAttempts))
	}
	if m.MaxDeliveries > 0 {
		options = append(options, app.MaxDeliveries(m.MaxDeliveries))
	}
	if m.DeadLetter != "" {
		options = append(options, app.DeadLetter(m.DeadLetter))
	}
	if m.Concurrency > 0 {
		options = append(options, app.Concurrency(m.Concurrency))
	}
	if m.Prefetch > 0 {
		options = append(options, app.Prefetch(m.Prefetch))
	}
	if m.Backoff > 0 {
		options = append(options, app.Backoff(app.Exponential{Initial: m.Backoff, Max: 10 * m.Backoff}))
	}
	return options
}

// worker is the handler of a worker process, and of an app that stands for one.
type worker struct{ pen *pen }

// handle writes the call into the journal and does what its job says. A journal that cannot be written makes the whole
// test worthless, so the process says so and ends.
func (w *worker) handle(ctx context.Context, body []byte) outcome.HandlerOutcome {
	var j job
	if err := json.Unmarshal(body, &j); err != nil {
		return outcome.DeadLetter(err)
	}
	m := app.MessageFrom(ctx)
	c, err := w.pen.begin(j.Key, m)
	if err != nil {
		fail(err)
	}
	o := j.at(m.Attempt).run(ctx, c.signature())
	if err := w.pen.end(c); err != nil {
		fail(err)
	}
	return o
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "chaos worker:", err)
	os.Exit(2)
}

// newApp makes the app of an order, on a journal that is open.
func newApp(o order, p *pen, log *slog.Logger) *app.App {
	options := []app.Option{app.Grace(o.Grace), app.Logger(log)}
	if o.StartTimeout > 0 {
		options = append(options, app.StartTimeout(o.StartTimeout))
	}
	a := app.New("chaos", "test", options...)
	m := a.Broker(redisbroker.Standalone(o.URL, redisbroker.Liveness(o.Liveness)))
	for _, mt := range o.Mounts {
		m.Mount(streamrt.SubscribeMethod(mt.spec(), streamrt.Raw, (*worker).handle).With(&worker{p}), mt.options()...)
	}
	return a
}

// workIfOrdered turns the process into a worker if it was started as one, and does not return then. It is called before
// anything else: a worker runs no tests.
func workIfOrdered() {
	text, ordered := os.LookupEnv(envWorker)
	if !ordered {
		return
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fail(err)
	}
	p, err := newPen(o.Journal, o.Number)
	if err != nil {
		fail(err)
	}
	// A supervisor that dies closes the pipe; nobody is left to stop this process then.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends
		os.Exit(3)
	}()
	a := newApp(o, p, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	a.AfterStartup(func(context.Context) error { return p.ready() })
	a.Main()
}
