package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress draws how far long work has come, where a terminal shows it.
type progress struct{ bar *progressbar.ProgressBar }

// progress begins work on so many things; total below 1 is not known.
func (s *session) progress(what string, total int64) *progress {
	if !s.draws {
		return &progress{}
	}
	if total < 1 {
		total = -1
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionSetWidth(30),
	)}
}

// reached tells how many are done.
func (p *progress) reached(n int) {
	if p.bar != nil {
		_ = p.bar.Set(n) // that a drawing fails is nothing to stop for
	}
}

// end takes the drawing away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
	}
}
