package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/millrace-go/millrace/broker/deadletter"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

// letterStats is what stats prints for a program.
type letterStats struct {
	Key      string         `json:"key"`
	Records  int            `json:"records"`
	Foreign  int            `json:"foreign"`
	Bytes    int64          `json:"bytes"`
	Oldest   *string        `json:"oldest"`
	Newest   *string        `json:"newest"`
	Reasons  map[string]int `json:"reasons"`
	Handlers map[string]int `json:"handlers"`
	Groups   map[string]int `json:"groups"`
	Sources  map[string]int `json:"sources"`
	Ages     []ageJSON      `json:"ages"`
}

// ageJSON counts the records that are younger than Under seconds and not counted before; Under is 0 for the rest.
type ageJSON struct {
	Under int64 `json:"under_seconds"`
	Count int   `json:"count"`
}

func statsJSON(key string, stats deadletter.Stats) letterStats {
	object := letterStats{
		Key: key, Records: stats.Total, Foreign: stats.Foreign, Bytes: stats.Bytes,
		Oldest: instantJSON(stats.Oldest), Newest: instantJSON(stats.Newest),
		Reasons: stats.Reasons, Handlers: stats.Handlers, Groups: stats.Groups, Sources: stats.Sources,
	}
	for _, age := range stats.Ages {
		object.Ages = append(object.Ages, ageJSON{int64(age.Under.Seconds()), age.Count})
	}
	return object
}

func (s *session) showStats(key string, stats deadletter.Stats) error {
	text := fmt.Sprintf("%s: %s, %d bytes", key, plural(stats.Total, "record", "records"), stats.Bytes)
	if stats.Foreign > 0 {
		text += fmt.Sprintf("; %d no dead letters", stats.Foreign)
	}
	if !stats.Oldest.IsZero() {
		text += fmt.Sprintf("; buried from %s to %s", instant(stats.Oldest), instant(stats.Newest))
	}
	s.tell("%s", text)
	for _, part := range []struct {
		title  string
		counts map[string]int
	}{{"REASON", stats.Reasons}, {"HANDLER", stats.Handlers}, {"GROUP", stats.Groups}, {"SOURCE", stats.Sources}} {
		if len(part.counts) == 0 {
			continue
		}
		fmt.Fprintln(s.stdout)
		t := s.table(part.title, "RECORDS")
		names := slices.SortedFunc(maps.Keys(part.counts), func(a, b string) int {
			return cmp.Or(part.counts[b]-part.counts[a], cmp.Compare(a, b))
		})
		for _, name := range names {
			t.row(cell(or(name)), strconv.Itoa(part.counts[name]))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if stats.Total == stats.Foreign {
		return nil
	}
	fmt.Fprintln(s.stdout)
	t := s.table("BURIED", "RECORDS")
	for i, age := range stats.Ages {
		name := "less than " + span(age.Under) + " ago"
		if age.Under == 0 && i > 0 {
			name = "longer ago"
		}
		t.row(name, strconv.Itoa(age.Count))
	}
	return t.end()
}
