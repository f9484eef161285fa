package deadletter

import (
	"context"
	"time"
)

// Stats counts the records of a dead letter.
type Stats struct {
	// Total counts all that the filter lets through, Foreign those of them that are no dead letters. The other counts leave
	// foreign ones out.
	Total, Foreign int
	// Bytes is about what the records take: names and values, without what the server adds.
	Bytes int64
	// Reasons, Handlers, Groups and Sources count by what stands in the record. A list has no groups: they count under "".
	Reasons, Handlers, Groups, Sources map[string]int
	// Ages count by how long ago the record was buried, by the server's clock: each those that are younger than its Under
	// and not counted before; the last one, whose Under is 0, all others.
	Ages []Age
	// Oldest and Newest are the first and the last time of a burial; zero where there is none.
	Oldest, Newest time.Time
}

// Age counts the records of one age.
type Age struct {
	Under time.Duration
	Count int
}

// ages are the bounds of [Stats.Ages].
var ages = []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 0}

// Stats counts what the filter lets through. It reads every record once, in pages, as All does.
func (q *Queue) Stats(ctx context.Context, filter Filter) (Stats, error) {
	s := Stats{
		Reasons: make(map[string]int), Handlers: make(map[string]int), Groups: make(map[string]int), Sources: make(map[string]int),
	}
	for _, under := range ages {
		s.Ages = append(s.Ages, Age{Under: under})
	}
	for p, err := range q.pages(ctx, filter, "") {
		if err != nil {
			return Stats{}, err
		}
		for _, l := range p.letters {
			if r := newRecord(l); p.matches(r) {
				s.Bytes += int64(l.Size())
				s.count(r, p.now)
			}
		}
	}
	return s, nil
}

func (s *Stats) count(r *Record, now time.Time) {
	s.Total++
	if r.Foreign {
		s.Foreign++
		return
	}
	s.Reasons[r.Reason]++
	s.Handlers[r.Handler]++
	s.Groups[r.Group]++
	s.Sources[r.Source]++
	if s.Oldest.IsZero() || r.At.Before(s.Oldest) {
		s.Oldest = r.At
	}
	if r.At.After(s.Newest) {
		s.Newest = r.At
	}
	for i := range s.Ages {
		if under := s.Ages[i].Under; under == 0 || now.Sub(r.At) < under {
			s.Ages[i].Count++
			return
		}
	}
}
