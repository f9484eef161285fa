package brokertest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// logbook keeps the errors that an app logs. It is safe for concurrent use.
type logbook struct {
	attrs []slog.Attr
	// root is where records are kept; nil in the root itself.
	root *logbook

	mu     sync.Mutex
	errors []logged
}

// logged is one record of level error: whose it is, and its message and values as text.
type logged struct{ mount, text string }

// Enabled leaves out everything below an error.
func (b *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle keeps the record.
func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	var one logged
	var text strings.Builder
	text.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		if a.Key == "mount" {
			one.mount = a.Value.String()
		}
		text.WriteString(" " + a.String())
		return true
	}
	for _, a := range b.attrs {
		add(a)
	}
	r.Attrs(add)
	one.text = text.String()
	root := b
	if b.root != nil {
		root = b.root
	}
	root.mu.Lock()
	defer root.mu.Unlock()
	root.errors = append(root.errors, one)
	return nil
}

// WithAttrs returns a logbook that writes into the same book.
func (b *logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	root := b
	if b.root != nil {
		root = b.root
	}
	return &logbook{attrs: append(append([]slog.Attr(nil), b.attrs...), attrs...), root: root}
}

// WithGroup changes nothing: names are not looked at.
func (b *logbook) WithGroup(string) slog.Handler { return b }

// of returns the errors of a mount.
func (b *logbook) of(mount string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var texts []string
	for _, one := range b.errors {
		if one.mount == mount {
			texts = append(texts, one.text)
		}
	}
	return texts
}
