package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

// refunds is what the demonstration publishes: every fate that a refund can have, on both streams.
var refunds = []struct {
	stream string
	Refund
}{
	{"refunds", Refund{1, "good", 1999}},
	{"refunds", Refund{2, "busy-once", 450}},
	{"refunds", Refund{3, "silent-once", 12000}},
	{"refunds", Refund{4, "closed", 800}},
	{"refunds", Refund{5, "silent", 3050}},
	{"refunds", Refund{6, "good", 75}},
	{"refunds.priority", Refund{7, "good", 99900}},
	{"refunds.priority", Refund{8, "busy-once", 2500}},
	{"refunds.priority", Refund{9, "silent-once", 640}},
	{"refunds.priority", Refund{10, "closed", 1500}},
	{"refunds.priority", Refund{11, "silent", 7777}},
}

// unreadable is the twelfth: a body that is no refund.
const unreadable = `{"id": 12, "card":`

// demo runs the service until every refund has met its fate.
func demo(ctx context.Context, s *stage.Stage, outage bool) error {
	n := newNarrator(s, len(refunds)+1)
	a, m := n.service(outage)
	running, err := stage.Start(ctx, a)
	if err != nil {
		return err
	}
	s.Print("the service reads from %s; a dozen refunds come in\n\n", s.Where)
	for _, r := range refunds {
		err = errors.Join(err, m.Publish(ctx, broker.Stream(r.stream), r.Refund))
	}
	err = errors.Join(err, m.Publish(ctx, broker.Stream("refunds"), []byte(unreadable)))
	select {
	case <-n.done:
	case <-ctx.Done():
	}
	if err = errors.Join(err, running.Stop()); err != nil {
		return err
	}
	n.table()
	return nil
}

// serve runs the service, and publishes nothing, until the process is interrupted.
func serve(ctx context.Context, s *stage.Stage, outage bool) error {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := newNarrator(s, 0)
	a, _ := n.service(outage)
	s.Print("the service reads from %s until it is interrupted\n\n", s.Where)
	return a.Run(ctx)
}

// narrator tells what happens as it happens, and remembers each refund's fate.
type narrator struct {
	*stage.Stage
	done chan struct{}

	mu     sync.Mutex
	open   int
	fates  map[int]string
	counts map[int]int
}

func newNarrator(s *stage.Stage, open int) *narrator {
	return &narrator{Stage: s, done: make(chan struct{}), open: open, fates: map[int]string{}, counts: map[int]int{}}
}

// service is the service whose events are told.
func (n *narrator) service(outage bool) (*app.App, *app.Mounts) {
	return Service(n.Broker(), &Processor{Outage: outage, Note: n.answered}, &Reviewer{Show: n.buried}, app.Logger(slog.New(slog.DiscardHandler)))
}

// answered is told what the card processor said.
func (n *narrator) answered(ctx context.Context, r Refund, answer error) {
	m := app.MessageFrom(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[r.ID] = m.Attempt
	switch {
	case answer == nil:
		n.say(r.ID, m.Attempt, "refunded %s", money(r.Cents))
		n.settle(r.ID, "refunded")
	case errors.Is(answer, ErrDeclined):
		n.say(r.ID, m.Attempt, "declined (%v): dropped", answer)
		n.settle(r.ID, "dropped")
	case errors.Is(answer, ErrBusy):
		n.say(r.ID, m.Attempt, "busy (%v): asks for another attempt in %s", answer, Backoff)
	default:
		n.say(r.ID, m.Attempt, "unavailable (%v): asks for another attempt", answer)
	}
}

// buried is told of a dead letter.
func (n *narrator) buried(letter []byte, m app.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := 12
	for _, r := range refunds {
		if strings.Contains(string(letter), fmt.Sprintf(`"id":%d,`, r.ID)) {
			id = r.ID
		}
	}
	d := m.DeadLetter
	n.say(id, 0, "dead letter for a person to look at: %s after %d attempts (%s)", d.Reason, d.Attempts, d.Error)
	n.counts[id] = d.Attempts
	n.settle(id, "dead letter: "+d.Reason)
}

func (n *narrator) say(id, attempt int, format string, args ...any) {
	who := fmt.Sprintf("refund %2d", id)
	if attempt > 0 {
		who += fmt.Sprintf(", attempt %d", attempt)
	}
	n.Say("%-21s  %s", who, fmt.Sprintf(format, args...))
}

func (n *narrator) settle(id int, fate string) {
	if n.fates[id] != "" {
		return // a redelivery
	}
	n.fates[id] = fate
	if n.open--; n.open == 0 {
		close(n.done)
	}
}

func money(cents int) string { return fmt.Sprintf("€%d.%02d", cents/100, cents%100) }

// table prints what became of every refund.
func (n *narrator) table() {
	n.mu.Lock()
	defer n.mu.Unlock()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "REFUND\tSTREAM\tCARD\tATTEMPTS\tFATE")
	for _, r := range refunds {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", r.ID, r.stream, r.Card, n.counts[r.ID], n.fates[r.ID])
	}
	fmt.Fprintf(w, "12\trefunds\t(unreadable)\t%d\t%s\n", n.counts[12], n.fates[12])
	_ = w.Flush()
	n.Print("\n%s", table.String())
}
