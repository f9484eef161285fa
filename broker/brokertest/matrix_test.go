package brokertest

import "testing"

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
