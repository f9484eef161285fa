package redisbroker

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/broker"
)

// listLetters are the dead letters in a list.
type listLetters struct{ letters }

func (l *listLetters) Structure() broker.Structure { return broker.StructureList }

// Len is LLEN.
func (l *listLetters) Len(ctx context.Context) (int64, error) {
	n, err := l.client.LLen(ctx, l.key).Result()
	return n, l.failed("LLEN", err)
}

// Add is LPUSH.
func (l *listLetters) Add(ctx context.Context, records []*broker.Letter) (int, error) {
	return l.add(ctx, records, func(r *broker.Letter) ([]any, error) {
		if r.Raw != nil {
			return []any{"LPUSH", l.key, r.Raw}, nil
		}
		e, err := envelopeOf(r.Fields)
		return []any{"LPUSH", l.key, e.seal()}, err
	})
}

// Walk is to come.
func (l *listLetters) Walk(context.Context, string, []string) (broker.LetterWalk, error) {
	return nil, errors.New("a list cannot be walked yet")
}
