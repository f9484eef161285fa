package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// traced is a service whose spans are recorded.
type traced struct {
	*service
	recorder *tracetest.SpanRecorder
	tracer   trace.Tracer
}

func pausedTraced(t *testing.T, f func(s *traced)) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		f(&traced{newService(h, h.Broker(), app.TracerProvider(provider)), recorder, provider.Tracer("test")})
	})
}

// spans are those of one kind that have ended, in this order.
func (s *traced) spans(kind trace.SpanKind) []sdktrace.ReadOnlySpan {
	var spans []sdktrace.ReadOnlySpan
	for _, span := range s.recorder.Ended() {
		if span.SpanKind() == kind {
			spans = append(spans, span)
		}
	}
	return spans
}

// said are the attributes of a span.
func said(span sdktrace.ReadOnlySpan) map[string]string {
	attributes := map[string]string{}
	for _, kv := range span.Attributes() {
		attributes[string(kv.Key)] = kv.Value.String()
	}
	return attributes
}

func (s *traced) wantSaid(span sdktrace.ReadOnlySpan, want map[string]string) {
	s.t.Helper()
	got := said(span)
	for key, value := range want {
		if got[key] != value {
			s.t.Errorf("%s says %s=%q, want %q; all: %v", span.Name(), key, got[key], value, got)
		}
	}
}

func TestADeliveryIsASpanThatLinksToItsPublisher(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		var inHandler trace.SpanContext
		s.mount(streamrt.Spec{Name: "refunds"}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			inHandler = trace.SpanContextFromContext(ctx)
			time.Sleep(time.Second)
			return outcome.Ack()
		})
		s.start()
		ctx, request := s.tracer.Start(s.t.Context(), "request")
		if err := s.m.Publish(ctx, broker.Stream("in"), []byte("hello"), broker.Header(broker.HeaderMessageID, "m1")); err != nil {
			s.t.Fatal(err)
		}
		request.End()
		s.Advance(2 * time.Second)
		producers, consumers := s.spans(trace.SpanKindProducer), s.spans(trace.SpanKindConsumer)
		if len(producers) != 1 || len(consumers) != 1 {
			s.t.Fatalf("%d spans of a publisher and %d of a consumer", len(producers), len(consumers))
		}
		producer, consumer := producers[0], consumers[0]
		if producer.Name() != "publish in" || producer.Parent().SpanID() != request.SpanContext().SpanID() {
			s.t.Errorf("%s is a child of %s, want one of the request", producer.Name(), producer.Parent().SpanID())
		}
		s.wantSaid(producer, map[string]string{
			"messaging.system": "redis", "messaging.operation.name": "publish", "messaging.operation.type": "send",
			"messaging.destination.name": "in", "messaging.message.id": "m1", "messaging.message.body.size": "5",
		})
		links := consumer.Links()
		if len(links) != 1 || links[0].SpanContext.SpanID() != producer.SpanContext().SpanID() || links[0].SpanContext.TraceID() != producer.SpanContext().TraceID() {
			s.t.Errorf("the delivery links to %v, want the publisher %v", links, producer.SpanContext())
		}
		if consumer.Parent().IsValid() || consumer.SpanContext().TraceID() == producer.SpanContext().TraceID() {
			s.t.Error("the delivery is not the root of a trace of its own")
		}
		if consumer.Name() != "process in" || consumer.EndTime().Sub(consumer.StartTime()) != time.Second {
			s.t.Errorf("%s took %s", consumer.Name(), consumer.EndTime().Sub(consumer.StartTime()))
		}
		if !inHandler.Equal(consumer.SpanContext()) {
			s.t.Error("the handler runs under another span")
		}
		s.wantSaid(consumer, map[string]string{
			"messaging.system": "redis", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "in", "messaging.consumer.group.name": group, "messaging.message.id": "m1",
			"messaging.message.body.size": "5", "millrace.entry.id": s.entries("in")[0].ID, "subscription": "refunds",
			"millrace.attempt": "1", "millrace.losses": "0", "millrace.outcome": "ack", "millrace.settlement": "ack",
		})
		if consumer.Status().Code != codes.Unset {
			s.t.Errorf("its status is %v", consumer.Status())
		}
	})
}

func TestASpanSaysWhatBecameOfItsDelivery(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		answers := map[string]outcome.HandlerOutcome{
			"ack": outcome.Ack(), "drop": outcome.Drop(), "retry": outcome.Retry(), "later": outcome.RetryAfter(time.Second),
			"busy": outcome.RetryAfter(time.Second).WithError(errors.New("busy")), "fail": outcome.Of(errors.New("no answer")),
			"reject": outcome.DeadLetter(errors.New("no such card")), "zero": {},
		}
		s.mount(streamrt.Spec{Timeout: time.Second}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			switch body {
			case "panic":
				panic("oh no")
			case "timeout":
				<-ctx.Done()
				return outcome.Of(ctx.Err())
			}
			return answers[body]
		}, app.MaxAttempts(2), app.DeadLetter("dlq"), exact)
		s.start()
		for body, want := range map[string][2]string{
			"ack": {"ack: ack"}, "drop": {"drop: ack dropped"},
			"retry":   {"retry: copy", "ERROR retry: bury max_attempts"},
			"later":   {"retry_after: keep", "ERROR retry_after: bury max_attempts"},
			"busy":    {"ERROR(busy) retry_after: keep", "ERROR(busy) retry_after: bury max_attempts"},
			"fail":    {"ERROR(no answer) fail: keep", "ERROR(no answer) fail: bury max_attempts"},
			"panic":   {"ERROR(panic: oh no) panic: keep", "ERROR(panic: oh no) panic: bury max_attempts"},
			"timeout": {"ERROR(context deadline exceeded) timeout: keep", "ERROR(context deadline exceeded) timeout: bury max_attempts"},
			"zero":    {"ERROR(handler returned the zero outcome) none: keep", "ERROR(handler returned the zero outcome) none: bury max_attempts"},
			"reject":  {"ERROR(no such card) dead_letter: bury rejected"},
		} {
			s.recorder.Reset()
			s.publish(body)
			s.Advance(10 * time.Second)
			consumers := s.spans(trace.SpanKindConsumer)
			var got [2]string
			for i, span := range consumers {
				if i < len(got) {
					got[i] = summary(span)
				}
			}
			if got != want || len(consumers) > len(want) {
				s.t.Errorf("%s: %d spans %q, want %q", body, len(consumers), got, want)
			}
			if body == "panic" && !strings.Contains(eventText(consumers[0]), "exception.stacktrace=panic: oh no") {
				s.t.Errorf("no stack: %s", eventText(consumers[0]))
			}
			for i, span := range consumers {
				s.wantSaid(span, map[string]string{"millrace.attempt": fmt.Sprint(i + 1)})
				if len(span.Links()) != 1 {
					s.t.Errorf("%s: attempt %d does not link to the publisher", body, i+1)
				}
			}
		}
	})
}

// summary is what a span says of the end.
func summary(span sdktrace.ReadOnlySpan) string {
	a := said(span)
	text := a["millrace.outcome"] + ": " + strings.Join(strings.Fields(strings.Join([]string{
		a["millrace.settlement"], a["millrace.dead_letter.reason"], a["millrace.discarded.why"],
	}, " ")), " ")
	if status := span.Status(); status.Code == codes.Error {
		if status.Description != "" {
			return "ERROR(" + status.Description + ") " + text
		}
		return "ERROR " + text
	}
	return text
}

func eventText(span sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	for _, event := range span.Events() {
		for _, kv := range event.Attributes {
			fmt.Fprintf(&b, "%s=%s\n", kv.Key, kv.Value.String())
		}
	}
	return b.String()
}

// A message that no handler sees does not leave its publisher's trace without an end.
func TestWhatIsGivenUpUnrunHasASpan(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		s.m.Mount(streamrt.Subscribe(streamrt.Spec{Name: "json", Stream: "in", Group: group}, streamrt.JSON,
			func(context.Context, int) outcome.HandlerOutcome { return outcome.Ack() }), app.DeadLetter("dlq"))
		s.m.Mount(streamrt.Subscribe(streamrt.Spec{Name: "none", Stream: "in", Group: "other"}, streamrt.JSON,
			func(context.Context, int) outcome.HandlerOutcome { return outcome.Ack() }))
		s.start()
		s.publish("no json")
		got := map[string]bool{}
		for _, span := range s.spans(trace.SpanKindConsumer) {
			text := summary(span)
			got[said(span)["subscription"]+" "+text[strings.Index(text, ") ")+2:]] = true
			if span.Status().Code != codes.Error || len(span.Links()) != 1 {
				s.t.Errorf("%s, links %v", text, span.Links())
			}
		}
		if want := map[string]bool{"json : bury malformed": true, "none : ack malformed": true}; !maps.Equal(got, want) {
			s.t.Errorf("%v, want %v", got, want)
		}
		s.recorder.Reset()
		add := &redis.XAddArgs{Stream: "in", Values: []any{"_payload", "1", "h:losses", "9", "h:retry-group", group}}
		if err := s.Client().XAdd(s.t.Context(), add).Err(); err != nil {
			s.t.Fatal(err)
		}
		s.Advance(time.Second)
		if spans := s.spans(trace.SpanKindConsumer); len(spans) != 1 || !strings.HasSuffix(summary(spans[0]), " : bury max_deliveries") {
			s.t.Errorf("%d spans", len(spans))
		}
	})
}

func TestABatchIsOneSpanForAllItsReaders(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		err := s.m.PublishBatch(s.t.Context(),
			app.Outgoing{To: broker.Stream("in"), Value: []byte("1")},
			app.Outgoing{To: broker.Stream("in"), Value: []byte("2"), Options: []broker.PublishOption{
				broker.Header(broker.HeaderTraceParent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
			}},
			app.Outgoing{To: broker.List("bare"), Value: []byte("3")},
			app.Outgoing{To: broker.List("headed"), Value: []byte("4"), Options: []broker.PublishOption{broker.Header("a", "b")}},
		)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Advance(time.Second)
		producers, consumers := s.spans(trace.SpanKindProducer), s.spans(trace.SpanKindConsumer)
		if len(producers) != 1 || len(consumers) != 2 {
			s.t.Fatalf("%d and %d spans", len(producers), len(consumers))
		}
		s.wantSaid(producers[0], map[string]string{"messaging.batch.message_count": "4", "messaging.destination.name": ""})
		linked := map[string]bool{}
		for _, c := range consumers {
			linked[c.Links()[0].SpanContext.SpanID().String()] = true
		}
		if !linked[producers[0].SpanContext().SpanID().String()] || !linked["b7ad6b7169203331"] {
			s.t.Errorf("linked to %v", linked)
		}
		list := func(key string) string { return s.Client().LIndex(s.t.Context(), key, 0).Val() }
		if got := list("bare"); got != "3" {
			s.t.Errorf("a message without headers has become %q", got)
		}
		if !strings.Contains(list("headed"), "traceparent") {
			s.t.Error("no trace context on a list where there are headers")
		}
	})
}

func TestAFailedPublishIsAnError(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		s.Client().Set(s.t.Context(), "taken", "x", 0)
		if err := s.m.Publish(s.t.Context(), broker.Stream("taken"), 1); err == nil {
			s.t.Fatal("no error")
		}
		producers := s.spans(trace.SpanKindProducer)
		if len(producers) != 1 || producers[0].Status().Code != codes.Error {
			s.t.Fatalf("%d spans", len(producers))
		}
		s.wantSaid(producers[0], map[string]string{"error.type": "_OTHER"})
	})
}

// What a handler publishes belongs to its delivery's trace.
func TestAHandlersPublishIsAChildOfItsDelivery(t *testing.T) {
	pausedTraced(t, func(s *traced) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			return outcome.Of(s.m.Publish(ctx, broker.Stream("next"), []byte("x")))
		})
		s.start()
		s.publish("x")
		consumer := s.spans(trace.SpanKindConsumer)[0].SpanContext()
		header, _ := s.entries("next")[0].Values["h:traceparent"].(string)
		if !strings.HasPrefix(header, "00-"+consumer.TraceID().String()) {
			s.t.Errorf("the message says %q, want trace %s", header, consumer.TraceID())
		}
	})
}

// Where nobody takes spans, a request that came in with a trace context still hands it on.
func TestWithoutAProviderTheTraceIsHandedOn(t *testing.T) {
	paused(t, func(s *service) {
		state, err := trace.ParseTraceState("vendor=1")
		if err != nil {
			s.t.Fatal(err)
		}
		remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceState: state, Remote: true})
		if err := s.m.Publish(trace.ContextWithRemoteSpanContext(s.t.Context(), remote), broker.Stream("in"), []byte("x")); err != nil {
			s.t.Fatal(err)
		}
		s.publish("y")
		entries := s.entries("in")
		if got := entries[0].Values; got["h:traceparent"] != "00-01000000000000000000000000000000-0200000000000000-00" || got["h:tracestate"] != "vendor=1" {
			s.t.Errorf("%v", got)
		}
		if _, ok := entries[1].Values["h:traceparent"]; ok {
			s.t.Errorf("a trace out of nothing: %v", entries[1].Values)
		}
	})
}
