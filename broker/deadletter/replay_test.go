package deadletter_test

import (
	"context"
	"maps"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/embedded"
)

func TestAReplayedRecordIsTheMessageAgainForItsGroup(t *testing.T) {
	b := embedded.New()
	defer b.Close(context.Background())
	client := b.Client()
	defer client.Close()
	for _, body := range []string{"a", "b"} {
		err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s.dlq", Values: []string{
			"_payload", body, "h:message-id", body, "h:retry-count", "3",
			"dlq_reason", "max_attempts", "dlq_source", "s", "dlq_group", "g", "dlq_id", "1-1", "dlq_at", "1777907439167",
		}}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	report, err := deadletter.Open(b, "s.dlq").Replay(t.Context(), deadletter.Filter{Text: "b"})
	if err != nil || report.Examined != 2 || report.Done != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	want := map[string]any{"_payload": "b", "h:message-id": "b", "h:replays": "1", "h:retry-group": "g"}
	if got := client.XRange(t.Context(), "s", "-", "+").Val(); len(got) != 1 || !maps.Equal(got[0].Values, want) {
		t.Errorf("the source has %v, want %v", got, want)
	}
	if n := client.XLen(t.Context(), "s.dlq").Val(); n != 1 {
		t.Errorf("%d records are left", n)
	}
}
