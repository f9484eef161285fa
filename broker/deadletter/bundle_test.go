package deadletter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func TestMain(m *testing.M) {
	replayIfAsked()
	redistest.Main(m)
}

// site is one empty server.
type site struct {
	client redis.UniversalClient
	// connect returns a new broker on it.
	connect func(...redisbroker.Option) broker.Broker
	cluster bool
}

// each runs f on the embedded server and on each of the matrix.
func each(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		f(t, onEmbedded(t))
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		f(t, &site{client: s.Client(), connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(s.URL(), o...) }})
	})
}

// everywhere is each, and a cluster besides.
func everywhere(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	each(t, f)
	t.Run("cluster", func(t *testing.T) { f(t, onCluster(t)) })
}

func onEmbedded(t testing.TB) *site {
	server := embedded.NewServer()
	client := server.Client()
	t.Cleanup(func() { _ = client.Close(); server.Close() })
	return &site{client: client, connect: func(o ...redisbroker.Option) broker.Broker { return server.Broker(o...) }}
}

func onCluster(t testing.TB) *site {
	s := redistest.Cluster(t)
	client := redis.NewClusterClient(must(redis.ParseClusterURL(s.URL())))
	t.Cleanup(func() { _ = client.Close() })
	return &site{client: client, cluster: true, connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Cluster(s.URL(), o...) }}
}

// letters opens the dead letter through a broker of its own.
func (s *site) letters(t testing.TB, key string, options ...redisbroker.Option) *deadletter.Queue {
	b := s.connect(options...)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return deadletter.Open(b, key)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// structure is where messages stand: a stream, or a list.
type structure string

const (
	stream structure = "stream"
	list   structure = "list"
)

// both runs f for dead letters in a stream and in a list, each time with an empty server.
func both(t *testing.T, s *site, f func(t *testing.T, kind structure)) {
	for _, kind := range []structure{stream, list} {
		t.Run(string(kind), func(t *testing.T) {
			if !s.cluster {
				must(s.client.FlushDB(t.Context()).Result())
			} else {
				must(s.client.FlushAll(t.Context()).Result())
			}
			f(t, kind)
		})
	}
}

func (k structure) spec(key, group string) streamrt.Spec {
	if k == list {
		return streamrt.Spec{Name: "test." + key, List: key, Reliable: true, Block: 100 * time.Millisecond}
	}
	return streamrt.Spec{Name: "test." + key + "." + group, Stream: key, Group: group, Block: 100 * time.Millisecond}
}

func (k structure) destination(key string) broker.Destination {
	if k == list {
		return broker.List(key)
	}
	return broker.Stream(key)
}

// length is XLEN or LLEN.
func (s *site) length(t testing.TB, kind structure, key string) int64 {
	t.Helper()
	if kind == list {
		return must(s.client.LLen(t.Context(), key).Result())
	}
	return must(s.client.XLen(t.Context(), key).Result())
}

// call is one run of a handler.
type call struct {
	body    string
	message app.Message
}

// service is an app that notes what its handlers get.
type service struct {
	*app.Mounts
	app *app.App
	log bytes.Buffer

	mu    sync.Mutex
	calls []call
}

func (s *site) service(options ...redisbroker.Option) *service {
	v := new(service)
	v.app = app.New("deadletter", "test", app.Logger(slog.New(slog.NewTextHandler(v, nil))), app.Grace(5*time.Second))
	v.Mounts = v.app.Broker(s.connect(options...))
	return v
}

// Write takes a line of the log.
func (v *service) Write(line []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.log.Write(line)
}

func (v *service) mount(spec streamrt.Spec, answer outcome.HandlerOutcome, options ...app.MountOption) {
	v.Mount(streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.calls = append(v.calls, call{string(body), app.MessageFrom(ctx)})
		return answer
	}), options...)
}

// seen returns the calls so far, those of one subscription where it is named.
func (v *service) seen(group string) []call {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(v.calls), func(c call) bool { return group != "" && c.message.Group != group })
}

// during runs f while the service runs.
func (v *service) during(t testing.TB, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reads, ended := make(chan struct{}), make(chan error, 1)
	v.app.AfterStartup(func(context.Context) error { close(reads); return nil })
	go func() { ended <- v.app.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the app ended with %v; its log:\n%s", err, v.log.String())
		}
	}()
	select {
	case <-reads:
	case <-time.After(20 * time.Second):
		t.Fatalf("the app does not start; its log:\n%s", v.log.String())
	}
	f()
}

// bury has the messages fail once each.
func (s *site) bury(t testing.TB, kind structure, source, dead string, bodies ...string) {
	t.Helper()
	s.buryAs(t, kind, source, dead, "g", outcome.Retry(), bodies...)
}

func (s *site) buryAs(t testing.TB, kind structure, source, dead, group string, answer outcome.HandlerOutcome, bodies ...string) {
	t.Helper()
	v := s.service()
	v.mount(kind.spec(source, group), answer, app.DeadLetter(dead), app.MaxAttempts(1))
	before := s.length(t, kind, dead)
	v.during(t, func() {
		for _, body := range bodies {
			v.send(t, kind.destination(source), body)
		}
		eventually(t, "all messages are buried", func() bool { return s.length(t, kind, dead) == before+int64(len(bodies)) })
	})
}

func (v *service) send(t testing.TB, to broker.Destination, body string, options ...broker.PublishOption) {
	t.Helper()
	if err := v.Publish(t.Context(), to, []byte(body), append(options, broker.Header("content-type", "raw"))...); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// records reads all that the filter lets through.
func records(t testing.TB, q *deadletter.Queue, filter deadletter.Filter) []deadletter.Record {
	t.Helper()
	var all []deadletter.Record
	for r, err := range q.All(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// replay replays and holds the report to these numbers.
func replay(t testing.TB, q *deadletter.Queue, filter deadletter.Filter, want deadletter.Report, options ...deadletter.Option) deadletter.Report {
	t.Helper()
	got, err := q.Replay(t.Context(), filter, options...)
	if err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, got, want)
	return got
}

func sameNumbers(t testing.TB, got, want deadletter.Report) {
	t.Helper()
	numbers := func(r deadletter.Report) string {
		return fmt.Sprintf("examined %d, matched %d, done %d, gone %d, foreign %d, refused %d", r.Examined, r.Matched, r.Done, r.Gone, r.Foreign, r.Refused)
	}
	if numbers(got) != numbers(want) {
		t.Errorf("%s; want %s; refusals %v", numbers(got), numbers(want), got.Refusals)
	}
}

// all is the report of a call that did everything with n records.
func all(n int) deadletter.Report { return deadletter.Report{Examined: n, Matched: n, Done: n} }

// add appends an entry to a stream.
func (s *site) add(t testing.TB, key string, fields ...string) string {
	t.Helper()
	return must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: fields}).Result())
}
