package app_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
)

// What cannot be encoded, what says nothing and what the server refuses stops none of the others, and each is named by
// its place, in order.
func TestABatchSaysWhichOfItsMessagesWereNotWritten(t *testing.T) {
	paused(t, func(s *service) {
		s.Client().Set(t.Context(), "text", "x", 0)
		err := s.m.PublishBatch(t.Context(),
			app.Outgoing{To: broker.Stream("in"), Value: "0"},
			app.Outgoing{To: broker.Stream("text"), Value: "1"},
			app.Outgoing{To: broker.Stream("in"), Value: make(chan int)},
			app.Outgoing{To: broker.Stream("in"), Value: "3", Options: []broker.PublishOption{broker.MaxLen(0)}},
			app.Outgoing{To: broker.List("list"), Value: []byte("4")},
			app.Outgoing{To: broker.Channel("channel"), Value: "5", Options: []broker.PublishOption{broker.After("set", time.Second)}},
			app.Outgoing{To: broker.Destination{}, Value: "6"},
			app.Outgoing{To: broker.Stream("in"), Value: "7", Options: []broker.PublishOption{broker.After("set", time.Second)}},
		)
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			s.t.Fatalf("%v", err)
		}
		want := []struct {
			index int
			text  string
		}{
			{1, "WRONGTYPE"}, {2, "encoding a chan int"}, {3, "broker.MaxLen(0)"}, {5, "broker.After"}, {6, "the destination is zero"},
		}
		errs := joined.Unwrap()
		if len(errs) != len(want) {
			s.t.Fatalf("%d errors:\n%v", len(errs), err)
		}
		for i, w := range want {
			var one *app.PublishError
			if !errors.As(errs[i], &one) || one.Index != w.index || !strings.Contains(one.Error(), w.text) {
				s.t.Errorf("error %d: %v", i, errs[i])
			}
		}
		n, list, waits := s.length("in"), s.Client().LRange(t.Context(), "list", 0, -1).Val(), s.Client().ZCard(t.Context(), "set").Val()
		if n != 1 || len(list) != 1 || list[0] != "4" || waits != 1 {
			s.t.Errorf("%d entries, the list %q, %d wait", n, list, waits)
		}
	})
}

// On lists and channels a message without headers is its bare body, which every other program can read.
func TestAMessageWithoutHeadersIsBareWhereThereAreNoFields(t *testing.T) {
	paused(t, func(s *service) {
		for _, value := range []any{[]byte("raw"), json.RawMessage(`{"a":1}`), map[string]int{"a": 1}} {
			if err := s.m.Publish(t.Context(), broker.List("list"), value); err != nil {
				s.t.Fatal(err)
			}
		}
		if err := s.m.Publish(t.Context(), broker.List("list"), "x", broker.Header("a", "b")); err != nil {
			s.t.Fatal(err)
		}
		list := s.Client().LRange(t.Context(), "list", 0, -1).Val()
		if list[3] != "raw" || list[2] != `{"a":1}` || list[1] != `{"a":1}` {
			s.t.Errorf("the list %q", list)
		}
		for _, part := range []string{"\xd9\xd9\xf7\xda\x4d\x4c\x52\x31", broker.HeaderMessageID, broker.HeaderContentType, `"x"`} {
			if !strings.Contains(list[0], part) {
				s.t.Errorf("%q lacks %q", list[0], part)
			}
		}
	})
}
