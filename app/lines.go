package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesInFull is how many lines of one kind are written in full for each mount and linesWithin.
	linesInFull = 10
	linesWithin = time.Minute
)

// lines keeps the log readable while a hundred thousand messages fail alike: of one kind, which is a mount, a level and a
// text, the first ten lines of a minute are written in full, and one at its end that says how many were left out. Debug
// lines are all written. Safe for concurrent use.
type lines struct {
	mu    sync.Mutex // guards kinds; not held over a line that is written
	kinds map[kind]*spate
}

type kind struct {
	mount string
	level slog.Level
	text  string
}

// spate are the lines of one kind since the first of them.
type spate struct {
	until   time.Time
	written int
	leftOut int
	// last is the latest that was left out, and where it goes.
	last slog.Record
	to   slog.Handler
}

func newLines() *lines { return &lines{kinds: map[kind]*spate{}} }

// handler returns the handler that writes to another one what is left.
func (l *lines) handler(to slog.Handler) slog.Handler { return &sparing{to: to, lines: l} }

// admit reports whether a line is to be written.
func (l *lines) admit(k kind, r slog.Record, to slog.Handler) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.kinds[k]
	if s == nil {
		s = &spate{until: now.Add(linesWithin)}
		l.kinds[k] = s
	}
	if s.written < linesInFull {
		s.written++
		return true
	}
	s.leftOut, s.last, s.to = s.leftOut+1, r, to
	return false
}

// sum ends the spates whose time is over, or all of them, and writes for each how many lines were left out.
func (l *lines) sum(all bool) {
	now := time.Now()
	var over []*spate
	l.mu.Lock()
	for k, s := range l.kinds {
		if all || !now.Before(s.until) {
			delete(l.kinds, k)
			over = append(over, s)
		}
	}
	l.mu.Unlock()
	for _, s := range over {
		s.end()
	}
}

// end writes the last line that was left out, and how many were besides it.
func (s *spate) end() {
	if s.leftOut == 0 {
		return
	}
	r := s.last.Clone()
	if s.leftOut > 1 {
		r.AddAttrs(slog.Int("left_out", s.leftOut-1), slog.Duration("within", linesWithin))
	}
	_ = s.to.Handle(context.Background(), r) // as a logger does
}

// sparing is a handler in front of another one.
type sparing struct {
	to    slog.Handler
	lines *lines
	mount string
}

// Enabled asks the other handler.
func (h *sparing) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle passes a line on, or counts it.
func (h *sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo && !h.lines.admit(h.kind(r), r, h.to) {
		return nil
	}
	return h.to.Handle(ctx, r)
}

func (h *sparing) kind(r slog.Record) kind {
	k := kind{h.mount, r.Level, r.Message}
	if k.mount == "" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == mountAttr {
				k.mount = a.Value.String()
			}
			return k.mount == ""
		})
	}
	return k
}

// mountAttr names the mount in every line that is about one.
const mountAttr = "mount"

// WithAttrs notes the mount.
func (h *sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.to = h.to.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == mountAttr {
			with.mount = a.Value.String()
		}
	}
	return &with
}

// WithGroup is the other handler's.
func (h *sparing) WithGroup(name string) slog.Handler {
	with := *h
	with.to = h.to.WithGroup(name)
	return &with
}
