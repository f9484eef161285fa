package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// original is a body that is no text in any encoding, and no JSON.
var original = func() string {
	var b strings.Builder
	for i := range 1024 {
		b.WriteByte(byte(i))
	}
	return b.String()
}()

// death is one way into the dead letter.
type death struct {
	reason string
	// cause starts a worker that buries what is published to the stream "in", group "g".
	cause func(s *stage)
	// publish, where it is given, takes the place of an ordinary publish.
	publish func(s *stage)
	error   string
	counted string
}

var deaths = []death{
	{
		reason: broker.ReasonMaxAttempts,
		cause: func(s *stage) {
			s.worker(streamrt.Spec{Stream: "in", Group: "g"}, func(context.Context, string) outcome.HandlerOutcome {
				return outcome.Retry().WithError(errNoAnswer)
			}, app.MaxAttempts(3), app.DeadLetter("dead"))
		},
		error: "no answer from the bank", counted: "3 failures, 0 lost owners, 3 deliveries",
	},
	{
		reason: broker.ReasonRejected,
		cause: func(s *stage) {
			s.worker(streamrt.Spec{Stream: "in", Group: "g"}, func(context.Context, string) outcome.HandlerOutcome {
				return outcome.DeadLetter(errors.New("not a refund"))
			}, app.MaxAttempts(3), app.DeadLetter("dead"))
		},
		error: "not a refund", counted: "0 failures, 0 lost owners, 1 delivery",
	},
	{
		reason: broker.ReasonMalformed,
		cause: func(s *stage) {
			type refund struct{ ID int }
			s.mounted(streamrt.Subscribe(streamrt.Spec{Name: "refunds.Process", Stream: "in", Group: "g"}, streamrt.JSON,
				func(context.Context, refund) outcome.HandlerOutcome { return outcome.Ack() }), app.DeadLetter("dead"))
		},
		error: "invalid character", counted: "0 failures, 0 lost owners, 1 delivery",
	},
	{
		reason: broker.ReasonUnknownTask,
		cause: func(s *stage) {
			s.worker(streamrt.Spec{Stream: "in", Group: "g", Task: "known"}, ack, app.DeadLetter("dead"),
				app.UnknownTaskDelay(50*time.Millisecond), app.UnknownTaskTimeout(60*time.Millisecond))
		},
		publish: func(s *stage) {
			s.stdin = original
			s.does(0, "publish", "in", "--header", "task=new", "--header", "message-id=m1")
		},
		error: "no worker recognised the task's name", counted: "0 failures, 0 lost owners",
	},
	{
		reason: broker.ReasonMaxDeliveries,
		cause: func(s *stage) {
			// A reader of another library dies with it in hand, three times: the worker takes it from dead owners.
			s.Client().XGroupCreateMkStream(s.t.Context(), "in", "g", "0")
			s.publish(broker.Stream("in"), original)
			err := s.Client().XReadGroup(s.t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"in", ">"}}).Err()
			if err != nil {
				s.t.Fatal(err)
			}
			id := s.Client().XRange(s.t.Context(), "in", "-", "+").Val()[0].ID
			if err := s.Client().Do(s.t.Context(), "XCLAIM", "in", "g", "dead", 0, id, "RETRYCOUNT", 3, "JUSTID").Err(); err != nil {
				s.t.Fatal(err)
			}
			s.liveness = time.Second
			s.worker(streamrt.Spec{Stream: "in", Group: "g"}, ack, app.MaxDeliveries(3), app.DeadLetter("dead"))
		},
		publish: func(*stage) {},
		error:   "3", counted: "0 failures, 3 lost owners",
	},
}

// Every reason is produced for real, and the record says what, where, when, why and how often, with the original's bytes.
func TestEveryFailureReasonIsShown(t *testing.T) {
	each(t, func(s *stage) {
		for _, d := range deaths {
			s.Client().Del(s.t.Context(), "in", "dead", "{in}:deferred")
			before := s.Client().Time(s.t.Context()).Val().Truncate(time.Millisecond)
			d.cause(s)
			if d.publish != nil {
				d.publish(s)
			} else {
				s.publish(broker.Stream("in"), original)
			}
			s.buried("dead", 1)
			s.Stop()
			s.stdin = ""
			s.shows(&d, before)
		}
	})
}

func (s *stage) shows(d *death, before time.Time) {
	s.t.Helper()
	id := s.Client().XRange(s.t.Context(), "dead", "-", "+").Val()[0].ID
	r := s.does(0, "dlq", "show", "dead", id)
	s.has(r, "message  m1", "reason   "+d.reason+": "+reasons[d.reason], "handler  refunds.Process", "group g", d.error, d.counted)
	if strings.ContainsAny(r.out, "\x00\x1b") || !utf8.ValidString(r.out) {
		s.t.Errorf("%s: raw bytes in %q", d.reason, r.out)
	}
	var record struct {
		Reason, Error, Source, Group, Handler string
		SourceID                              string `json:"source_id"`
		MessageID                             string `json:"message_id"`
		At                                    time.Time
		Payload                               struct{ Base64 []byte }
	}
	if err := json.Unmarshal([]byte(s.does(0, "dlq", "show", "dead", id, "--json").out), &record); err != nil {
		s.t.Fatal(err)
	}
	raw := s.does(0, "dlq", "show", "dead", id, "--raw").out
	if !bytes.Equal(record.Payload.Base64, []byte(original)) || raw != original {
		s.t.Errorf("%s: the bytes are not the original's", d.reason)
	}
	if record.Reason != d.reason || !strings.Contains(record.Error, d.error) || record.Source != "in" || record.Group != "g" ||
		record.Handler != "refunds.Process" || record.MessageID != "m1" || record.SourceID == "" {
		record.Payload.Base64 = nil
		s.t.Errorf("%s: %+v", d.reason, record)
	}
	if now := s.Client().Time(s.t.Context()).Val(); record.At.Before(before) || record.At.After(now) {
		s.t.Errorf("%s: buried at %s, between %s and %s", d.reason, record.At, before, now)
	}
}
