package brokertest

import "testing"

func TestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, target Target) {
		Outcomes(t, target)
	})
}

func TestOutcomesOnThePausedClock(t *testing.T) {
	var findings []finding
	t.Run("run", func(t *testing.T) {
		paused(t, func(t *testing.T, target Target) { findings = playOutcomes(t, target) })
	})
	if len(findings) != casesPerServer {
		t.Errorf("%d cases were run, want %d", len(findings), casesPerServer)
	}
	for _, f := range findings {
		for _, problem := range f.problems {
			t.Errorf("%s: %s", f.name, problem)
		}
	}
}

func TestTheMatrixIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenarios() {
		names[s.name()] = true
	}
	if len(names) != casesPerServer {
		t.Errorf("%d different cases, want %d", len(names), casesPerServer)
	}
	left := 0
	for _, s := range senseless {
		if s.reason == "" {
			t.Errorf("claims %v, kept %q: left out without a reason", s.claims, s.kept)
		}
		left += len(allCaps)
	}
	if whole := 2 * len(endings) * len(allCaps); whole != casesPerServer+left {
		t.Errorf("%d cases and %d left out, want %d together", casesPerServer, left, whole)
	}
}
