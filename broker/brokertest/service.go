package brokertest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// patience is how long anything may take. What does not come by then is a failed test, not one that hangs.
const patience = 90 * time.Second

// await waits until cond holds. what completes the sentence "never: …".
func await(t testing.TB, what string, cond func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !cond(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("never within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// service is one app on the target: what one process of a service is.
type service struct {
	*app.Mounts
	target   Target
	app      *app.App
	log      *logbook
	cancel   context.CancelFunc
	done     chan error
	subjects []*subject
}

func newService(target Target, options ...app.Option) *service {
	s := &service{target: target, log: new(logbook), done: make(chan error, 1)}
	s.app = app.New("brokertest", "test", append([]app.Option{app.Logger(slog.New(s.log))}, options...)...)
	s.Mounts = s.app.Broker(target.Broker())
	return s
}

// start returns when every subscription reads. The app is stopped with the test at the latest.
func (s *service) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	runs := make(chan struct{})
	s.app.AfterStartup(func(context.Context) error {
		close(runs)
		return nil
	})
	go func() { s.done <- s.app.Run(ctx) }()
	t.Cleanup(func() { s.stop(t) })
	select {
	case <-runs:
	case err := <-s.done:
		s.done <- err
		t.Fatalf("the app did not start: %v", err)
	case <-time.After(patience):
		t.Fatalf("the app did not start within %s", patience)
	}
}

// stop stops the app as SIGTERM would. What the service did is settled and counted when it returns.
func (s *service) stop(t testing.TB) {
	t.Helper()
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("the app stopped with an error: %v", err)
		}
	case <-time.After(patience):
		t.Errorf("the app did not stop within %s", patience)
	}
}

// mount adds a subscription whose calls the recorder answers and notes.
func (s *service) mount(spec streamrt.Spec, r *recorder, options ...app.MountOption) {
	s.Mount(streamrt.SubscribeMethod(spec, streamrt.Raw, (*recorder).handle).With(r), options...)
}

// publish sends one message.
func (s *service) publish(t testing.TB, key string, body []byte, options ...broker.PublishOption) {
	t.Helper()
	if err := s.Publish(context.Background(), broker.Stream(key), body, options...); err != nil {
		t.Fatal(err)
	}
}
