package streamrt_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

type refund struct{ ID int }

type service struct{ seen []refund }

func plain(context.Context, refund) outcome.HandlerOutcome { return outcome.Ack() }
func pointer(context.Context, *refund) error               { return nil }
func raw(context.Context, []byte) error                    { return nil }
func named(context.Context, json.RawMessage) error         { return nil }
func state(_ context.Context, s streamrt.State[*service], r refund) error {
	s.Value.seen = append(s.Value.seen, r)
	return nil
}

func (s *service) method(_ context.Context, r refund) outcome.HandlerOutcome {
	s.seen = append(s.seen, r)
	return outcome.Drop()
}

// The six shapes and the codecs compile with every type inferred, which is what generated code relies on.
var (
	plainSubscription   = streamrt.Subscribe(streamrt.Spec{Name: "t.plain"}, streamrt.Default, plain)
	pointerSubscription = streamrt.SubscribeErr(streamrt.Spec{Name: "t.pointer"}, streamrt.JSON, pointer)
	rawSubscription     = streamrt.SubscribeErr(streamrt.Spec{Name: "t.raw"}, streamrt.Raw, raw)
	namedSubscription   = streamrt.SubscribeErr(streamrt.Spec{Name: "t.named"}, streamrt.Raw, named)
	stateSubscription   = streamrt.SubscribeStateErr(streamrt.Spec{Name: "t.state"}, streamrt.JSON, state)
	methodSubscription  = streamrt.SubscribeMethod(streamrt.Spec{Name: "t.method"}, streamrt.Default, (*service).method)
)

func incoming(body string) *streamrt.Incoming {
	return &streamrt.Incoming{Body: []byte(body), HasBody: true}
}

func run(t *testing.T, s streamrt.Subscription, in *streamrt.Incoming) outcome.HandlerOutcome {
	t.Helper()
	call, err := s.Prepare(in, nil)
	if err != nil {
		t.Fatalf("%s: %v", s.Spec().Name, err)
	}
	return call(t.Context())
}

func TestEveryShapeReachesItsHandler(t *testing.T) {
	for _, s := range []streamrt.Subscription{plainSubscription, pointerSubscription, rawSubscription, namedSubscription} {
		if got := run(t, s, incoming(`{"ID":7}`)); got != outcome.Ack() {
			t.Errorf("%s answered %v", s.Spec().Name, got)
		}
	}
	svc := new(service)
	if got := run(t, stateSubscription.With(svc), incoming(`{"ID":1}`)); got != outcome.Ack() {
		t.Errorf("state: %v", got)
	}
	if got := run(t, methodSubscription.With(svc), incoming(`{"ID":2}`)); got != outcome.Drop() {
		t.Errorf("method: %v", got)
	}
	if len(svc.seen) != 2 || svc.seen[0].ID != 1 || svc.seen[1].ID != 2 {
		t.Errorf("the handlers saw %v", svc.seen)
	}
}

func TestABodyThatCannotBeDecodedHasNoHandlerCall(t *testing.T) {
	for body, s := range map[string]streamrt.Subscription{
		"":            plainSubscription,
		"{":           plainSubscription,
		`"text"`:      plainSubscription,
		`{"ID":1} {}`: plainSubscription,
		"null":        pointerSubscription,
	} {
		if _, err := s.Prepare(incoming(body), nil); err == nil {
			t.Errorf("%s decoded %q", s.Spec().Name, body)
		}
	}
	if _, err := plainSubscription.Prepare(&streamrt.Incoming{}, nil); err == nil || !strings.Contains(err.Error(), "_payload") {
		t.Errorf("an entry without a payload: %v", err)
	}
	if _, err := rawSubscription.Prepare(&streamrt.Incoming{}, nil); err != nil {
		t.Errorf("raw refused an entry without a payload: %v", err)
	}
}

func TestMessageFrom(t *testing.T) {
	if m := streamrt.MessageFrom(t.Context()); m.ID != "" || m.Attempt != 0 {
		t.Errorf("outside a delivery: %+v", m)
	}
	ctx := streamrt.WithMessage(t.Context(), &streamrt.Message{ID: "m", Attempt: 2})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if m := streamrt.MessageFrom(ctx); m.ID != "m" || m.Attempt != 2 {
		t.Errorf("got %+v", m)
	}
}
