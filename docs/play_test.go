package docs_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// play is one way to come to a cell: a source, a situation, an answer, and what the mount says.
type play struct {
	source
	situation
	answer
	mount mount
	title string

	*apptest.H
	spy       *spy
	log       errorLog
	meters    *sdkmetric.ManualReader // of counts
	counts    *sdkmetric.MeterProvider
	release   chan struct{} // ends the run of the message that has the only handler
	refusal   error
	soon      state // when the first run is over
	late      state // in the end
	over      time.Time
	discarded map[string]int64

	mu    sync.Mutex
	calls int // of the first process
	runs  []*run
}

// run is one call of the handler.
type run struct {
	process      string
	body         string
	message      app.Message
	began, ended time.Time
}

// The messages of a play: the one that it is about, one that is published behind it, and one that keeps the handler busy.
const (
	subject = "subject"
	other   = "other"
	blocker = "blocker"
)

var numbers atomic.Int64

// plays are all ways to come to a cell.
func plays(src source, s situation) (all []*play) {
	for _, a := range s.answers {
		for i, m := range s.mounts {
			all = append(all, &play{
				source: src, situation: s, answer: a, mount: m,
				title: fmt.Sprintf("%s/%s/%s/%d", s.row, src.name, a.name, i), log: errorLog{new(atomic.Int64)},
			})
		}
	}
	return all
}

func (p *play) name() string { return p.title }

// run plays it and returns the word for what happened, or a description where there is no word for it.
func (p *play) run(t *testing.T) (word string) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) {
		p.H, p.release, p.meters = h, make(chan struct{}), sdkmetric.NewManualReader()
		p.counts = sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.meters))
		p.spy = p.listen(h)
		defer p.spy.close()
		subscription := fmt.Sprintf("play-%d", numbers.Add(1))
		first, err := p.start(subscription, p.log, p.mount.options...)
		if p.refusal = err; err == nil {
			p.perform(first)
			p.discarded = p.discardedBy(subscription)
		}
	})
	return p.word()
}

func (p *play) perform(first *process) {
	if p.end == stopsBefore {
		p.publish(blocker)
	}
	if p.end == goesOn && p.keepsNothing() {
		// Another process hears the same, and must not hear what is meant for the first one.
		listener, err := p.start("listener", slog.DiscardHandler)
		if err != nil {
			p.T().Fatal(err)
		}
		defer listener.stop()
	}
	if p.end == goesOn && !p.malformed {
		p.publish(subject, other)
	} else {
		p.publish(subject)
	}
	p.Advance(0)
	if p.timed {
		p.Advance(timeout)
	}
	p.soon = p.look()
	if p.end != goesOn {
		peer, err := p.start("peer", slog.DiscardHandler, p.mount.options...)
		if err != nil {
			p.T().Fatal(err)
		}
		defer peer.stop()
		p.Advance(time.Second)
	}
	switch p.end {
	case dies:
		first.die()
	case stopsBefore:
		first.cancel()
		p.Advance(0)
		close(p.release)
	}
	p.over = time.Now()
	if p.end == stops || p.end == stopsBefore {
		first.stop()
		p.over = time.Now()
	}
	rest := claim + liveness/2
	if p.end != goesOn {
		rest = patience + liveness
	}
	p.Advance(rest)
	p.late = p.look()
	first.stop()
}

// start runs one process of the service, one message at a time.
func (p *play) start(subscription string, log slog.Handler, options ...app.MountOption) (*process, error) {
	always := []app.MountOption{
		app.Concurrency(1), app.Prefetch(1), app.Backoff(app.Exponential{Initial: delay, Max: delay, NoJitter: true}),
	}
	b, life := mortal(p.H)
	a := app.New("play", "1", app.Grace(time.Second), app.Logger(slog.New(log)), app.MeterProvider(p.counts))
	a.Broker(b).Mount(p.subscription(subscription), slices.Concat(always, p.source.options, options)...)
	return startProcess(a, life)
}

func (p *play) subscription(name string) streamrt.Subscription {
	spec := p.spec
	spec.Name = name
	if p.set {
		spec.DelaySet = "in.delayed"
	}
	if p.timed {
		spec.Timeout = timeout
	}
	who := name
	if strings.HasPrefix(name, "play-") {
		who = "first"
	}
	if p.malformed {
		return streamrt.Subscribe(spec, streamrt.JSON, func(ctx context.Context, _ map[string]any) outcome.HandlerOutcome {
			return p.handle(ctx, who, subject)
		})
	}
	return streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
		fields := app.MessageFrom(ctx).Fields // of a foreign entry
		text := string(body)
		if len(fields) > 0 {
			text = fields[0].Value
		}
		return p.handle(ctx, who, text)
	})
}

func (p *play) handle(ctx context.Context, who, body string) outcome.HandlerOutcome {
	r := &run{process: who, body: body, message: app.MessageFrom(ctx), began: time.Now()}
	p.mu.Lock()
	p.runs = append(p.runs, r)
	if who == "first" && body == subject {
		p.calls++
	}
	mine := who == "first" && body == subject && (p.calls == 1 || p.fails)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		r.ended = time.Now()
		p.mu.Unlock()
	}()
	switch {
	case mine:
		return p.give(ctx)
	case body == blocker:
		<-p.release
	}
	return outcome.Ack()
}

// of returns the runs of the subject in a process.
func (p *play) of(process string) (runs []*run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		if r.process == process && r.body == subject {
			runs = append(runs, r)
		}
	}
	return runs
}

// order is in which order the first process handled what.
func (p *play) order() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bodies []string
	for _, r := range p.runs {
		if r.process == "first" {
			bodies = append(bodies, r.body)
		}
	}
	return strings.Join(bodies, " ")
}

// process is the service at work.
type process struct {
	cancel context.CancelFunc
	over   chan struct{}
	err    error
	life   *lifeline
}

func startProcess(a *app.App, life *lifeline) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{cancel: cancel, over: make(chan struct{}), life: life}
	reads := make(chan struct{})
	a.AfterStartup(func(context.Context) error { close(reads); return nil })
	go func() {
		defer close(p.over)
		p.err = a.Run(ctx)
	}()
	select {
	case <-reads:
		return p, nil
	case <-p.over:
		cancel()
		return nil, cmp.Or(p.err, context.Canceled)
	}
}

// stop ends the process as SIGTERM would, and waits for that.
func (p *process) stop() {
	p.cancel()
	<-p.over
}

// die cuts the process off from the server for ever, which is all that the others see of a crash.
func (p *process) die() {
	p.life.cut()
	p.cancel()
}

// errorLog counts errors.
type errorLog struct{ n *atomic.Int64 }

func (l errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l errorLog) Handle(context.Context, slog.Record) error        { l.n.Add(1); return nil }
func (l errorLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l errorLog) WithGroup(string) slog.Handler                    { return l }
