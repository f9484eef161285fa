package brokertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Health shows that a subscription which no longer gets on with the server is told apart from the others, within twice its
// block and 5 s, and is good again by itself.
func Health(t *testing.T, target Target) { healthArea.run(t, target) }

var healthArea = area{name: "Health", bodies: []body{
	{name: "AKeyOfAnotherTypeIsNamed", run: healthOfAnotherType, paused: true},
}}

// healthBlock is the block of the subscriptions under test, and healthBound how long a check may be overdue then. A sweep
// is due once a second, and every five where the subscription claims.
const (
	healthBlock = 200 * time.Millisecond
	healthBound = 2*healthBlock + 5*time.Second
)

// healthSpecs are subscriptions of every kind whose keys are k's.
func healthSpecs() map[string]streamrt.Spec {
	specs := map[string]streamrt.Spec{}
	for _, m := range modes {
		specs[m.name] = m.spec(uniqueKeys())
	}
	reclaiming := uniqueKeys()
	specs["reclaiming"] = streamrt.Spec{Stream: reclaiming.stream, Group: reclaiming.group, Reclaim: time.Minute}
	foreign := uniqueKeys()
	specs["foreign"] = streamrt.Spec{Stream: foreign.stream, Group: foreign.group, Foreign: true}
	specs["list"] = streamrt.Spec{List: uniqueKeys().stream}
	specs["reliable list"] = streamrt.Spec{List: uniqueKeys().stream, Reliable: true}
	for name, spec := range specs {
		spec.Name, spec.Block = name, healthBlock
		specs[name] = spec
	}
	return specs
}

// health is how the named subscription is.
func (s *service) health(t testing.TB, name string) app.SubscriptionHealth {
	t.Helper()
	all := s.app.Health().Subscriptions
	i := slices.IndexFunc(all, func(h app.SubscriptionHealth) bool { return h.Name == name })
	if i < 0 {
		t.Fatalf("%q is not among %+v", name, all)
	}
	return all[i]
}

// allGood reports whether every subscription is good.
func (s *service) allGood(context.Context) bool { return s.app.Health().Ready }

func healthOfAnotherType(t *testing.T, target Target) {
	svc := newService(target)
	specs := healthSpecs()
	for _, name := range sortedKeys(specs) {
		svc.mount(specs[name], &recorder{answer: acks})
	}
	svc.start(t)
	if !svc.app.Health().Ready {
		t.Fatalf("at the start: %+v", svc.app.Health())
	}
	left := []string{"memory", "list"}
	for _, name := range sortedKeys(specs) {
		if !slices.Contains(left, name) {
			key := specs[name].Stream + specs[name].List
			target.Client.Del(t.Context(), key)
			if err := target.Client.Set(t.Context(), key, "in the way", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	broke := time.Now()
	await(t, "every subscription whose key is something else is bad", func(context.Context) bool {
		for name := range specs {
			if svc.health(t, name).Good != slices.Contains(left, name) {
				return false
			}
		}
		return true
	})
	// Nothing of it is the test's own time on a machine that has enough of it.
	if took := time.Since(broke); took < 5*time.Second-healthBlock || took > healthBound+5*time.Second {
		t.Errorf("bad after %s, want about %s", took, healthBound)
	}
	for name, spec := range specs {
		for _, bad := range svc.health(t, name).Bad {
			if want := "WRONGTYPE"; !strings.Contains(bad.Error, want) || bad.Check == "heartbeat" {
				t.Errorf("%s: %+v, want %s", name, bad, want)
			}
		}
		if key := spec.Stream + spec.List; !slices.Contains(left, name) {
			target.Client.Del(t.Context(), key)
		}
	}
	defer func() {
		if h := svc.app.Health(); !h.Ready {
			t.Logf("the health is %+v", h)
		}
	}()
	await(t, "all are good again", svc.allGood)
}
