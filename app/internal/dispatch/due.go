package dispatch

import (
	"container/heap"
	"time"
)

// timed is a value and when its turn comes.
type timed[T any] struct {
	at    time.Time
	value T
}

// dueQueue holds values until they are due, the earliest first. It is not safe for concurrent use.
type dueQueue[T any] struct{ entries timedHeap[T] }

func (q *dueQueue[T]) add(at time.Time, value T) { heap.Push(&q.entries, timed[T]{at, value}) }

func (q *dueQueue[T]) len() int { return len(q.entries) }

// next returns when the earliest value is due, and false where there is none.
func (q *dueQueue[T]) next() (time.Time, bool) {
	if len(q.entries) == 0 {
		return time.Time{}, false
	}
	return q.entries[0].at, true
}

// take removes the earliest value if it is due at now.
func (q *dueQueue[T]) take(now time.Time) (value T, ok bool) {
	if len(q.entries) == 0 || q.entries[0].at.After(now) {
		return value, false
	}
	return heap.Pop(&q.entries).(timed[T]).value, true
}

// drain removes everything, in no particular order.
func (q *dueQueue[T]) drain() []timed[T] {
	all := q.entries
	q.entries = nil
	return all
}

type timedHeap[T any] []timed[T]

func (h timedHeap[T]) Len() int           { return len(h) }
func (h timedHeap[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timedHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timedHeap[T]) Push(x any)        { *h = append(*h, x.(timed[T])) }
func (h *timedHeap[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = timed[T]{}
	*h = (*h)[:last]
	return x
}
