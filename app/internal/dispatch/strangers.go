package dispatch

import (
	"log/slog"
	"sync"

	"github.com/millrace-go/millrace/broker"
)

// maxStrangers is how many names are remembered, and so logged, at most.
const maxStrangers = 100

// strangers are the tasks that nobody here knows, each of which is logged once. Safe for concurrent use.
type strangers struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *strangers) note(log *slog.Logger, d *broker.Delivery) {
	task, _ := d.Header(broker.HeaderTask)
	if len(task) > maxError {
		task = shorten(task, maxError)
	}
	s.mu.Lock()
	known := s.names[task] || len(s.names) >= maxStrangers
	if !known {
		if s.names == nil {
			s.names = map[string]bool{}
		}
		s.names[task] = true
	}
	s.mu.Unlock()
	if !known {
		log.Warn("no handler of this process knows the task, or the version of the message: it is put off for one that does",
			"id", d.ID, "task", task)
	}
}
