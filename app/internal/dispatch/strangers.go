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

// note logs a task once. puts: the source can put the message off.
func (s *strangers) note(log *slog.Logger, d *broker.Delivery, puts bool) {
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
	if known {
		return
	}
	becomes := "put off for a process that does"
	if !puts {
		becomes = "dropped, as its source keeps nothing"
	}
	log.Warn("no handler of this process knows the task, or the version of the message", "id", d.ID, "task", task, "it_is", becomes)
}
