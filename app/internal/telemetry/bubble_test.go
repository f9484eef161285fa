package telemetry

import (
	"testing"
	"testing/synctest"
)

func TestEveryBubbleHasItsName(t *testing.T) {
	if got := bubble(); got != "" {
		t.Errorf("outside it is %q", got)
	}
	names := map[string]bool{}
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			name := bubble()
			names[name] = true
			same := make(chan string)
			go func() { same <- bubble() }()
			if other := <-same; other != name || name == "" {
				t.Errorf("two goroutines of one bubble are in %q and %q", name, other)
			}
		})
	}
	if len(names) != 3 {
		t.Errorf("three bubbles have the names %v", names)
	}
}
