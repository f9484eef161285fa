package deadletter_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// ownSite is a server whose users and settings the test may change.
func ownSite(t *testing.T, shared *redistest.Server) (*redistest.Server, *site) {
	server := shared.Own(t)
	return server, &site{client: server.Client(), connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(server.URL(), o...) }}
}

// as opens the dead letter as a user who may do everything but these.
func (s *site) as(t testing.TB, server *redistest.Server, dead string, but ...string) *deadletter.Queue {
	t.Helper()
	args := []any{"ACL", "SETUSER", "operator", "reset", "on", ">secret", "allkeys", "allchannels", "+@all"}
	for _, command := range but {
		args = append(args, "-"+command)
	}
	if err := s.client.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	connect := redisbroker.Standalone
	if s.cluster {
		connect = redisbroker.Cluster
	}
	b := connect(strings.Replace(server.URL(), "://", "://operator:secret@", 1))
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return deadletter.Open(b, dead)
}

// everything is what stands at the keys, in its order.
func (s *site) everything(t testing.TB, keys ...string) (all []any) {
	t.Helper()
	for _, key := range keys {
		switch held := must(s.client.Type(t.Context(), key).Result()); held {
		case "stream":
			all = append(all, must(s.client.Do(t.Context(), "XRANGE", key, "-", "+").Slice()))
		case "list":
			all = append(all, must(s.client.LRange(t.Context(), key, 0, -1).Result()))
		case "zset":
			all = append(all, must(s.client.ZRange(t.Context(), key, 0, -1).Result()))
		default:
			all = append(all, held)
		}
	}
	return all
}

// What a user may not finish is not begun: a script is not rolled back, so that half of it would leave a message twice, or
// something else in a record's place.
func TestWithoutARightNothingIsBegun(t *testing.T) {
	after := deadletter.After("{s}.waiting", time.Hour)
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server, s := ownSite(t, shared)
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "{s}", "{s}.dlq", "a", "b", "c")
			s.client.ZAdd(t.Context(), "{s}.waiting", redis.Z{Score: 1, Member: "x"})
			s.client.Expire(t.Context(), "{s}.waiting", time.Hour)
			deleting := []string{"xdel"}
			if kind == list {
				deleting = []string{"lindex", "lpos", "lset", "lrem"}
			}
			keys := []string{"{s}", "{s}.dlq", "{s}.waiting"}
			before := s.everything(t, keys...)
			unchanged := func(right, key string, report deadletter.Report, err error) {
				t.Helper()
				if err == nil && report.Refused == 3 {
					err = report.Refusals[0].Err
				}
				if err == nil || !strings.Contains(err.Error(), "'"+right+"'") || !strings.Contains(err.Error(), key) {
					t.Errorf("without %s: %+v, %v", right, report, err)
				}
				if now := s.everything(t, keys...); !reflect.DeepEqual(now, before) {
					t.Fatalf("without %s there was %v and is %v", right, before, now)
				}
			}
			for _, right := range deleting {
				q := s.as(t, server, "{s}.dlq", right)
				report, err := q.Replay(t.Context(), deadletter.Filter{})
				unchanged(right, `"{s}.dlq"`, report, err)
				report, err = q.Replay(t.Context(), deadletter.Filter{}, after)
				unchanged(right, `"{s}.dlq"`, report, err)
				report, err = q.Purge(t.Context(), deadletter.Filter{})
				unchanged(right, `"{s}.dlq"`, report, err)
			}
			for _, right := range []string{"zadd", "pttl", "zrange", "pexpireat"} {
				report, err := s.as(t, server, "{s}.dlq", right).Replay(t.Context(), deadletter.Filter{}, after)
				unchanged(right, `"{s}.waiting"`, report, err)
			}
			replay(t, s.as(t, server, "{s}.dlq"), deadletter.Filter{}, all(3), after)
		})
	})
}

// The same where a record is written to one slot and deleted from another.
func TestWithoutARightNothingIsBegunBetweenSlots(t *testing.T) {
	s := redistest.Cluster(t)
	options := must(redis.ParseClusterURL(s.URL()))
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = client.Close() })
	at := &site{client: client, cluster: true, connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Cluster(s.URL(), o...) }}
	both(t, at, func(t *testing.T, kind structure) {
		at.bury(t, kind, "source", "dead", "a", "b", "c")
		rights := map[string]string{
			"get": "{dead}:replay", "set": "{dead}:replay", "xdel": "dead", "xadd": "source",
			"sadd": "{source}:replayed:dead", "srem": "{source}:replayed:dead", "pexpire": "{source}:replayed:dead",
		}
		if kind == list {
			rights = map[string]string{"get": "{dead}:replay", "set": "{dead}:replay", "lset": "dead", "lrem": "dead", "lpos": "dead", "lpush": "source"}
		}
		before := at.everything(t, "source", "dead")
		for right, key := range rights {
			report, err := at.as(t, s, "dead", right).Replay(t.Context(), deadletter.Filter{})
			if err == nil && report.Refused > 0 {
				err = report.Refusals[0].Err
			}
			if err == nil || !strings.Contains(err.Error(), "'"+right+"'") || !strings.Contains(err.Error(), `"`+key+`"`) {
				t.Errorf("without %s: %+v, %v", right, report, err)
			}
			if now := at.everything(t, "source", "dead"); !reflect.DeepEqual(now, before) {
				t.Fatalf("without %s there was %v and is %v", right, before, now)
			}
			client.Del(t.Context(), "{dead}:replay")
		}
		replay(t, at.as(t, s, "dead"), deadletter.Filter{}, all(3))
	})
}

// A server that takes no writes ends the call instead of refusing record after record; what is there can be deleted to make
// room.
func TestAFullServerEndsAReplay(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		_, s := ownSite(t, shared)
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "s", "s.dlq", "a", "b", "c", "d")
			q := s.letters(t, "s.dlq")
			before := s.everything(t, "s", "s.dlq")
			set := func(name, value string) {
				if err := s.client.ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set("maxmemory", "1mb")
			defer set("maxmemory", "0")
			for _, options := range [][]deadletter.Option{nil, {deadletter.To(kind.destination("elsewhere"))}, {deadletter.After("waiting", time.Hour)}} {
				report, err := q.Replay(t.Context(), deadletter.Filter{}, options...)
				if err == nil || !strings.Contains(err.Error(), "OOM") || !strings.Contains(err.Error(), `"s.dlq"`) || report.Done+report.Refused != 0 {
					t.Errorf("%+v, %v", report, err)
				}
			}
			if now := s.everything(t, "s", "s.dlq"); !reflect.DeepEqual(now, before) {
				t.Errorf("there was %v and is %v", before, now)
			}
			// One from among the others, wherever it was buried, and then all but one.
			is := func(body string, want bool) deadletter.Filter {
				return deadletter.Filter{Match: func(r *deadletter.Record) bool { return (string(r.Body) == body) == want }}
			}
			sameNumbers(t, must(q.Purge(t.Context(), is("b", true))), deadletter.Report{Examined: 4, Matched: 1, Done: 1})
			sameNumbers(t, must(q.Purge(t.Context(), is("c", false))), deadletter.Report{Examined: 3, Matched: 2, Done: 2})
			set("maxmemory", "0")
			replay(t, q, deadletter.Filter{}, all(1))
		})
	})
}

func TestAReplicaEndsAReplay(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		_, s := ownSite(t, shared)
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "s", "s.dlq", "a", "b")
			q := s.letters(t, "s.dlq")
			must(s.client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Result())
			defer func() { must(s.client.Do(context.Background(), "REPLICAOF", "NO", "ONE").Result()) }()
			for name, call := range map[string]func() (deadletter.Report, error){
				"replay": func() (deadletter.Report, error) { return q.Replay(t.Context(), deadletter.Filter{}) },
				"purge":  func() (deadletter.Report, error) { return q.Purge(t.Context(), deadletter.Filter{}) },
			} {
				report, err := call()
				if err == nil || !strings.Contains(err.Error(), "READONLY") || !strings.Contains(err.Error(), `"s.dlq"`) || report.Done+report.Refused != 0 {
					t.Errorf("%s: %+v, %v", name, report, err)
				}
			}
			if n := len(records(t, q, deadletter.Filter{})); n != 2 {
				t.Errorf("%d records", n)
			}
		})
	})
}

// A target that cannot take a record is that record's refusal; the others go on.
func TestATargetOfTheWrongTypeIsARefusal(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.client.Set(t.Context(), "text", "x", 0)
			for i, source := range []string{"good", "bad", "good"} {
				s.bury(t, kind, source, fmt.Sprint("dlq", i), source)
				for _, r := range records(t, s.letters(t, fmt.Sprint("dlq", i)), deadletter.Filter{}) {
					if kind == list {
						s.client.LPush(t.Context(), "dlq", r.Raw)
						continue
					}
					var fields []string
					for _, f := range r.Fields {
						fields = append(fields, string(f.Name), string(f.Value))
					}
					s.add(t, "dlq", fields...)
				}
			}
			s.client.Set(t.Context(), "bad", "x", 0)
			q := s.letters(t, "dlq")
			r := replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 3, Matched: 3, Done: 2, Refused: 1})
			if len(r.Refusals) != 1 || !strings.Contains(r.Refusals[0].Err.Error(), `"bad"`) {
				t.Errorf("%v", r.Refusals)
			}
			for _, options := range [][]deadletter.Option{{deadletter.To(stream.destination("text"))}, {deadletter.To(list.destination("text"))}, {deadletter.After("text", 0), deadletter.To(stream.destination("new"))}} {
				r := replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 1, Matched: 1, Refused: 1}, options...)
				if len(r.Refusals) != 1 || !strings.Contains(r.Refusals[0].Err.Error(), `"text": WRONGTYPE`) {
					t.Errorf("%v", r.Refusals)
				}
			}
			left := records(t, q, deadletter.Filter{})
			if len(left) != 1 || !slices.Equal(left[0].Body, []byte("bad")) {
				t.Errorf("%+v", left)
			}
		})
	})
}
