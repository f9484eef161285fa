package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/broker/redistest"
)

// Every measurement works: whoever is measured handles everything, and its figures are such as can be.
func TestEveryMeasurement(t *testing.T) {
	server := redistest.Start(t)
	for _, s := range scenarios {
		for _, subject := range s.subjects {
			one := s.name + "/" + subject.name
			t.Run(one, func(t *testing.T) {
				if testing.Short() && (subject.name == asynqName || s.name == "idle") {
					t.Skip("takes more than a few seconds")
				}
				sample, err := measure(t.Context(), config{redis: server.URL(), one: one, scale: 0.000_001})
				if err != nil {
					t.Fatal(err)
				}
				t.Log(sample)
				if sample.Messages < 1 || sample.Seconds <= 0 || sample.Commands <= 0 || sample.Allocs <= 0 || sample.ClientCPU <= 0 {
					t.Errorf("%+v", sample)
				}
				if early := sample.Extra["earliest_ms"]; early < 0 {
					t.Errorf("an attempt came %f ms before it was due", -early)
				}
			})
		}
	}
}

func TestARowHasTheMediansOfItsRounds(t *testing.T) {
	samples := func(rates ...float64) (s []sample) {
		for _, rate := range rates {
			s = append(s, sample{Messages: 10, Rate: rate, Commands: 0.5, P50: 1, P99: 2})
		}
		return s
	}
	got := row("x", samples(300, 100, 200), samples(100, 100, 400))
	want := "| x | 10 | 200 | 100 % | 1.00 | 0.00 / 0.00 | 0.500 | 0.0 | 1.00 / 2.00 |  |"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBadCommandLines(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"-redis= ", "which server"},
		{"-redis=redis://127.0.0.1:1 more", `unexpected argument "more"`},
		{"-redis=redis://127.0.0.1:1", "does not answer"},
		{"-redis=redis://127.0.0.1:1 -one=no/such", "no such measurement"},
	} {
		err := run(t.Context(), strings.Fields(c.args))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", c.args, err, c.says)
		}
	}
}

func TestScenariosAreChosenByPartsOfTheirNames(t *testing.T) {
	if got := len(chosen("consume,idle")); got != 4 {
		t.Errorf("%d scenarios", got)
	}
	if got := chosen(""); !slices.EqualFunc(got, scenarios, func(a, b scenario) bool { return a.name == b.name }) {
		t.Error("not all")
	}
}

// Counts repeat where times do not: they may not rise. Decoding one order with encoding/json makes 9 allocations.
func TestCommandsAndAllocationsStayAtTheirFloor(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range []struct {
		one              string
		scale            float64
		commands, allocs float64
	}{
		{"consume-1/" + millrace, 0.05, 0.05, 22},
		{"consume-10/" + millrace, 0.05, 0.02, 22},
		{"consume-100/" + millrace, 0.05, 0.02, 22},
		{"reliable-list/" + millrace, 0.25, 3.3, 27},
		{"retry-storm/" + millrace, 0.1, 1.1, 65},
		{"dead-letters/" + millrace, 0.25, 2.1, 36},
	} {
		t.Run(c.one, func(t *testing.T) {
			sample, err := measure(t.Context(), config{redis: server.URL(), one: c.one, scale: c.scale})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(sample)
			if sample.Commands > c.commands || sample.Allocs > c.allocs {
				t.Errorf("%.3f commands and %.1f allocations a message, the floors are %.3f and %.1f", sample.Commands, sample.Allocs, c.commands, c.allocs)
			}
		})
	}
}
