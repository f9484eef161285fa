package brokertest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// A server that stands still is noticed by every subscription that reads without end, channels after a silence of 15 s, and
// forgotten once it goes on.
func TestAServerThatStandsStillMakesUnhealthy(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server := shared.Own(t)
		svc := newService(targetOf(server))
		specs := healthSpecs()
		for _, name := range sortedKeys(specs) {
			svc.mount(specs[name], &recorder{answer: acks})
		}
		svc.mount(streamrt.Spec{Name: "channel", Channel: "brokertest.health"}, &recorder{answer: acks})
		svc.start(t)
		time.Sleep(healthBound) // the server is well, and so is everybody
		if h := svc.app.Health(); !h.Ready {
			t.Fatalf("while the server is well: %+v", h)
		}
		const still = 20 * time.Second
		began := time.Now()
		if err := server.Client().Do(t.Context(), "CLIENT", "PAUSE", still.Milliseconds(), "ALL").Err(); err != nil {
			t.Fatal(err)
		}
		waiting := map[string]bool{"channel": true}
		for name := range specs {
			waiting[name] = true
		}
		await(t, "every subscription is bad", func(context.Context) bool {
			for name := range waiting {
				h := svc.health(t, name)
				if h.Good {
					continue
				}
				delete(waiting, name)
				t.Logf("%s is bad after %s: %+v", name, time.Since(began).Round(time.Millisecond), h.Bad)
				bound := healthBound + 2*time.Second // a sweep is due within a second
				switch {
				case name == "channel":
					bound = 16 * time.Second
				case specs[name].Reclaim > 0:
					bound += time.Second // its reads need no server
				}
				if took := time.Since(began); took > bound {
					t.Errorf("%s is bad after %s, want %s", name, took, bound)
				}
			}
			return len(waiting) == 0
		})
		await(t, "everything is good again", svc.allGood)
		if took := time.Since(began); took > still+15*time.Second {
			t.Errorf("good again %s after the server stood still for %s", took, still)
		}
	})
}

// A user that may no longer read makes the subscription that needs it bad, and names the command.
func TestALostPermissionMakesUnhealthy(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server := shared.Own(t) // users are the whole server's
		permit := func(rules ...any) {
			t.Helper()
			if err := server.Client().Do(t.Context(), append([]any{"ACL", "SETUSER", "worker"}, rules...)...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		permit("reset", "on", ">secret", "allkeys", "allchannels", "allcommands")
		address, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword("worker", "secret")
		svc := newService(Target{
			Name:   server.Name(),
			Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(address.String(), o...) },
			Client: server.Client(),
		})
		stream, list := uniqueKeys(), uniqueKeys()
		svc.mount(streamrt.Spec{Name: "stream", Stream: stream.stream, Group: stream.group, Block: healthBlock}, &recorder{answer: acks})
		svc.mount(streamrt.Spec{Name: "list", List: list.stream, Block: healthBlock}, &recorder{answer: acks})
		svc.start(t)
		for _, c := range []struct{ command, bad, good string }{
			{"xreadgroup", "stream", "list"},
			{"blmpop", "list", "stream"},
		} {
			permit("-" + c.command)
			began := time.Now()
			await(t, c.bad+" is bad", func(context.Context) bool { return !svc.health(t, c.bad).Good })
			if took := time.Since(began); took > healthBound+2*time.Second {
				t.Errorf("without %s: bad after %s, want %s", c.command, took, healthBound)
			}
			h := svc.health(t, c.bad)
			if len(h.Bad) != 1 || h.Bad[0].Check != "read" || !strings.Contains(strings.ToLower(h.Bad[0].Error), c.command) || !svc.health(t, c.good).Good {
				t.Errorf("without %s: %+v", c.command, svc.app.Health())
			}
			permit("+" + c.command)
			await(t, c.bad+" is good again", svc.allGood)
		}
	})
}
