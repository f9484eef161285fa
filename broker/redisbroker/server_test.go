package redisbroker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

func TestABadURLIsReportedWithoutItsPassword(t *testing.T) {
	constructors := map[string]func(url string) *redisbroker.Broker{
		"Standalone": func(url string) *redisbroker.Broker { return redisbroker.Standalone(url) },
		"Cluster":    func(url string) *redisbroker.Broker { return redisbroker.Cluster(url) },
		"Sentinel":   func(url string) *redisbroker.Broker { return redisbroker.Sentinel("m", url) },
	}
	for name, construct := range constructors {
		for _, url := range []string{
			"amqp://user:secret@localhost:6379",
			"redis://user:se/cret@localhost:6379",
			"redis://user:se#cret@localhost:6379",
			"redis://user:1/secret@localhost:6379",
			"redis://user:secret@localhost:port",
			"redis://user:sec%zzret@localhost:6379",
			"redis://user:secret@localhost:6379?no_such_option=1",
			"redis://user:secret@localhost:6379/0/1",
		} {
			problems := construct(url).Problems()
			if name == "Cluster" && strings.HasSuffix(url, "/0/1") {
				continue // a cluster has one database, and go-redis looks at no path
			}
			if len(problems) != 1 {
				t.Errorf("%s(%q): problems %v", name, url, problems)
				continue
			}
			text := problems[0].Error()
			if !strings.HasPrefix(text, "redisbroker."+name+": ") || !strings.Contains(text, "write redis://") {
				t.Errorf("%s(%q) says %q: no name, or no fix", name, url, text)
			}
			for _, part := range []string{"secret", "se/cret", "cret", "sec%"} {
				if strings.Contains(text, part) {
					t.Errorf("%s(%q) says %q", name, url, text)
				}
			}
		}
	}
	if problems := redisbroker.Sentinel("", "redis://localhost").Problems(); len(problems) != 1 {
		t.Errorf("a sentinel without a name: %v", problems)
	}
}

func TestTheAddressNamesTheServerAndNoSecret(t *testing.T) {
	for want, b := range map[string]*redisbroker.Broker{
		"a:1/2":                            redisbroker.Standalone("redis://user:secret@a:1/2"),
		"cluster a:1, b:2":                 redisbroker.Cluster("redis://user:secret@a:1?addr=b:2"),
		"orders (sentinels a:1, b:2)":      redisbroker.Sentinel("orders", "redis://user:secret@a:1?addr=b:2&password=secret"),
		"orders (sentinels a:26379)/3":     redisbroker.Sentinel("orders", "redis://a:26379/3"),
		"cluster c:3":                      redisbroker.FromClient(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"c:3"}})),
		"d:4":                              redisbroker.FromClient(redis.NewClient(&redis.Options{Addr: "d:4"})),
		"the master that a sentinel names": redisbroker.FromClient(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"e:5"}})),
	} {
		if got := b.Address(); got != want {
			t.Errorf("address %q, want %q", got, want)
		}
		if problems := b.Problems(); len(problems) > 0 {
			t.Errorf("%s: %v", want, problems)
		}
	}
}

func TestAClientOfAnotherKindIsReported(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{ring, nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		problems := redisbroker.FromClient(client).Problems()
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), fmt.Sprintf("%T", client)) ||
			!strings.Contains(problems[0].Error(), "give it a *redis.Client or a *redis.ClusterClient") {
			t.Errorf("%T: %v", client, problems)
		}
	}
}
