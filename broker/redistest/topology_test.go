package redistest

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestClusterServesEverySlotAndRefusesToMixThem(t *testing.T) {
	Clusters(t, func(t *testing.T, s *Server) {
		ctx, c := t.Context(), s.Client()
		for _, key := range []string{"orders", "orders.delayed", "orders.dlq"} {
			if err := c.Set(ctx, key, "v", 0).Err(); err != nil {
				t.Errorf("SET %s: %v", key, err)
			}
		}
		if err := c.MGet(ctx, "orders", "orders.dlq").Err(); err == nil || !strings.HasPrefix(err.Error(), "CROSSSLOT") {
			t.Errorf("MGET of two slots: %v, want CROSSSLOT", err)
		}
		opts, err := redis.ParseClusterURL(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		cluster := redis.NewClusterClient(opts)
		defer cluster.Close()
		if got := cluster.Get(ctx, "orders").Val(); got != "v" {
			t.Errorf("a cluster client reads %q", got)
		}
	})
}

func TestTheSharedClusterIsEmptyForEveryTest(t *testing.T) {
	var addresses []string
	for range 2 {
		t.Run("lease", func(t *testing.T) {
			s := Cluster(t)
			if n := s.Client().DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("%d keys at the start", n)
			}
			s.Client().Set(t.Context(), "left", "behind", 0)
			addresses = append(addresses, s.URL())
		})
	}
	if len(addresses) != 2 || addresses[0] != addresses[1] {
		t.Errorf("two tests got %q", addresses)
	}
}

func TestServersOfAClusterShareTheSlots(t *testing.T) {
	ctx, nodes := t.Context(), ClusterOf(t, 2)
	var answers [2]string
	for i, s := range nodes {
		if err := s.Client().Set(ctx, "orders", "v", 0).Err(); err != nil {
			answers[i] = err.Error()
		}
	}
	if (answers[0] == "") == (answers[1] == "") || !strings.HasPrefix(answers[0]+answers[1], "MOVED ") {
		t.Errorf("the two servers answer %q to a SET of the same key, want one MOVED", answers)
	}
	opts, err := redis.ParseClusterURL(nodes[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	cluster := redis.NewClusterClient(opts)
	defer cluster.Close()
	if got := cluster.Get(ctx, "orders").Val(); got != "v" {
		t.Errorf("a cluster client reads %q: the announced addresses lead nowhere", got)
	}
}

func TestClusterSurvivesARestart(t *testing.T) {
	s := ClusterOf(t, 1)[0]
	s.Restart(t)
	deadline := time.Now().Add(20 * time.Second)
	for err := error(nil); ; time.Sleep(20 * time.Millisecond) {
		if err = s.Client().Set(t.Context(), "orders", "v", 0).Err(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestSentinelMakesTheReplicaTheMaster(t *testing.T) {
	ctx, w := t.Context(), Sentinel(t)
	opts, err := redis.ParseFailoverURL(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MasterName = w.Name
	c := redis.NewFailoverClient(opts)
	defer c.Close()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := w.Master(t)
	w.Failover(t)
	after := w.Master(t)
	if before == after {
		t.Fatal("the master is the same")
	}
	if got := after.Client().Get(ctx, "k").Val(); got != "v" {
		t.Errorf("the new master holds %q", got)
	}
}

func TestTLSServerIsReachedOnlyWithItsCertificate(t *testing.T) {
	ctx, s := t.Context(), TLS(t)
	if !strings.HasPrefix(s.URL(), "rediss://") {
		t.Errorf("URL is %s", s.URL())
	}
	if err := s.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.TLSConfig = &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}
	stranger := redis.NewClient(opts)
	defer stranger.Close()
	if err := stranger.Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the certificate: %v", err)
	}
}
