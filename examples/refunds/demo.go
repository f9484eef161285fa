package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
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
func demo(ctx context.Context, url string, out io.Writer) error {
	b, where, cleanUp, err := connect(url)
	if err != nil {
		return err
	}
	defer cleanUp()
	n := newNarrator(out, len(refunds)+1)
	processor := &Processor{Note: n.answered}
	a, m := Service(b, processor, &Reviewer{Show: n.buried}, app.Logger(slog.New(slog.DiscardHandler)))
	a.AfterStartup(func(ctx context.Context) error {
		fmt.Fprintf(out, "the service reads from %s; a dozen refunds come in\n\n", where)
		for _, r := range refunds {
			if err := m.Publish(ctx, broker.Stream(r.stream), r.Refund); err != nil {
				return err
			}
		}
		return m.Publish(ctx, broker.Stream("refunds"), []byte(unreadable))
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-n.done:
		case <-running.Done():
		}
		stop()
	}()
	if err := a.Run(running); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("the refunds took longer than a minute")
	}
	n.table()
	return nil
}

// connect returns the broker of a real server or of one inside the process. On a real server every key gets a prefix of
// this run, and what the run wrote is removed in the end.
func connect(url string) (b broker.Broker, where string, cleanUp func(), err error) {
	if url == "" {
		return embedded.New(), "a server inside this process", func() {}, nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, "", nil, errors.New("-redis: not an address that can be used; write redis://host:port/db")
	}
	options.MaxRetries = -1 // cleaning up a server that is gone is not worth a wait
	client := redis.NewClient(options)
	prefix := fmt.Sprintf("millrace-example-%x:", time.Now().UnixNano())
	cleanUp = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		keys := client.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			client.Del(ctx, keys.Val())
		}
		_ = client.Close()
	}
	return redisbroker.Standalone(url, redisbroker.KeyPrefix(prefix)), "redis at " + options.Addr, cleanUp, nil
}

// narrator tells what happens as it happens, and remembers each refund's fate.
type narrator struct {
	out  io.Writer
	done chan struct{}

	mu     sync.Mutex
	start  time.Time
	open   int
	fates  map[int]string
	counts map[int]int
}

func newNarrator(out io.Writer, open int) *narrator {
	return &narrator{out: out, done: make(chan struct{}), start: time.Now(), open: open, fates: map[int]string{}, counts: map[int]int{}}
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
	fmt.Fprintf(n.out, "%5.1fs  %-21s  %s\n", time.Since(n.start).Seconds(), who, fmt.Sprintf(format, args...))
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
	fmt.Fprintln(n.out)
	w := tabwriter.NewWriter(n.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "REFUND\tSTREAM\tCARD\tATTEMPTS\tFATE")
	for _, r := range refunds {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", r.ID, r.stream, r.Card, n.counts[r.ID], n.fates[r.ID])
	}
	fmt.Fprintf(w, "12\trefunds\t(unreadable)\t%d\t%s\n", n.counts[12], n.fates[12])
	_ = w.Flush()
}
