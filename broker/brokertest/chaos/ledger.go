package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// ledger is what stands on the server for one mount.
type ledger struct {
	// copies are the entries of the stream: by key and retry-count, the signatures of the calls that asked for them, ""
	// for the message as it was published.
	copies map[string]map[int][]string
	// letters are the dead letters by key.
	letters map[string][]letter
	// pending and delayed are XPENDING and ZCARD.
	pending, delayed int64
}

// letter is one dead letter.
type letter struct {
	reason, attempts, losses, messageID string
	// by is the signature of the call that had it buried, "" where none had.
	by string
}

const (
	fieldPayload = "_payload"
	headerPrefix = "h:"
	// page is how many entries one look takes.
	page = 1000
)

// readLedger looks at everything that the mount uses.
func readLedger(ctx context.Context, client redis.UniversalClient, m mount) (*ledger, error) {
	l := &ledger{copies: map[string]map[int][]string{}, letters: map[string][]letter{}}
	err := eachEntry(ctx, client, m.Stream, func(key string, values map[string]any) error {
		count := 0
		if text := value(values, headerPrefix+broker.HeaderRetryCount); text != "" {
			var err error
			if count, err = strconv.Atoi(text); err != nil {
				return err
			}
		}
		if l.copies[key] == nil {
			l.copies[key] = map[int][]string{}
		}
		history := value(values, headerPrefix+broker.HeaderHistory)
		l.copies[key][count] = append(l.copies[key][count], signatureIn(history[strings.LastIndexByte(history, '\n')+1:]))
		return nil
	})
	if err == nil && m.DeadLetter != "" {
		err = eachEntry(ctx, client, m.DeadLetter, func(key string, values map[string]any) error {
			l.letters[key] = append(l.letters[key], letter{
				reason: value(values, broker.FieldReason), attempts: value(values, broker.FieldAttempts),
				losses: value(values, broker.FieldLosses), messageID: value(values, headerPrefix+broker.HeaderMessageID),
				by: signatureIn(value(values, broker.FieldError)),
			})
			return nil
		})
	}
	if err == nil {
		l.pending, err = pending(ctx, client, m)
	}
	if err == nil && m.DelaySet != "" {
		l.delayed, err = client.ZCard(ctx, m.DelaySet).Result()
	}
	return l, err
}

func pending(ctx context.Context, client redis.UniversalClient, m mount) (int64, error) {
	p, err := client.XPending(ctx, m.Stream, m.Group).Result()
	if err != nil {
		return 0, fmt.Errorf("XPENDING %s: %w", m.Stream, err)
	}
	return p.Count, nil
}

// pendingEntries lists what is pending, a thousand entries at most.
func pendingEntries(ctx context.Context, client redis.UniversalClient, m mount) ([]redis.XPendingExt, error) {
	return client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: m.Stream, Group: m.Group, Start: "-", End: "+", Count: page}).Result()
}

// eachEntry reads a stream from its beginning, in pages.
func eachEntry(ctx context.Context, client redis.UniversalClient, stream string, f func(key string, values map[string]any) error) error {
	for from := "-"; ; {
		entries, err := client.XRangeN(ctx, stream, from, "+", page).Result()
		if err != nil {
			return fmt.Errorf("XRANGE %s: %w", stream, err)
		}
		for _, e := range entries {
			var j job
			if err := json.Unmarshal([]byte(value(e.Values, fieldPayload)), &j); err != nil {
				return fmt.Errorf("entry %s of %s: %w", e.ID, stream, err)
			}
			if err := f(j.Key, e.Values); err != nil {
				return fmt.Errorf("entry %s of %s: %w", e.ID, stream, err)
			}
			from = "(" + e.ID
		}
		if len(entries) < page {
			return nil
		}
	}
}

func value(values map[string]any, name string) string {
	text, _ := values[name].(string)
	return text
}

var signed = regexp.MustCompile(`by call \d+/\d+`)

func signatureIn(text string) string { return signed.FindString(text) }
