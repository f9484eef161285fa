package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// secret is a password that nobody may ever read, whatever is wrong with the URL or the server.
const secret = "pa55w0rd"

// echo is a server that knows no command, and says with which arguments it was given each, as Redis does. It ends with the
// test.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() { echoAll(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

func echoAll(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	number := func(mark string) int {
		line, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, mark) {
			return -1
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if err != nil {
			return -1
		}
		return n
	}
	for {
		n := number("*")
		if n < 1 {
			return
		}
		var words []string
		for range n {
			text := make([]byte, max(number("$"), 0)+2)
			if _, err := io.ReadFull(r, text); err != nil {
				return
			}
			words = append(words, string(text[:len(text)-2]))
		}
		reply := fmt.Sprintf("-ERR unknown command '%s', with args beginning with: '%s'\r\n", words[0], strings.Join(words[1:], "' '"))
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// A password is in no error, no line of the log and no answer of the health handler: neither where a URL cannot be used,
// nor where the server does not answer, nor where it repeats what it was sent.
func TestNoPasswordIsEverPrinted(t *testing.T) {
	closed := "127.0.0.1:1"
	parrot := echo(t)
	client := redis.NewClient(&redis.Options{
		Addr: parrot, Username: "user", Password: secret,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	for name, b := range map[string]broker.Broker{
		"a slash in the password":     redisbroker.Standalone("redis://user:" + secret + "/x@localhost:6379/0"),
		"a bad escape":                redisbroker.Standalone("redis://user:" + secret + "%zz@localhost:6379/0"),
		"a hash in the password":      redisbroker.Standalone("redis://user:" + secret + "#x@localhost:6379"),
		"a question mark":             redisbroker.Standalone("redis://user:" + secret + "?x@localhost:6379"),
		"another scheme":              redisbroker.Standalone("http://user:" + secret + "@localhost:6379"),
		"no scheme":                   redisbroker.Standalone("user:" + secret + "@localhost:6379"),
		"no slashes":                  redisbroker.Standalone("redis:user:" + secret + "@localhost:6379"),
		"a bad port":                  redisbroker.Standalone("redis://user:" + secret + "@localhost:port"),
		"a bad database":              redisbroker.Standalone("redis://user:" + secret + "@localhost/" + "zero"),
		"a bad option":                redisbroker.Standalone("redis://user:" + secret + "@localhost?max_retries=many"),
		"an unknown option":           redisbroker.Standalone("redis://localhost?pass=" + secret),
		"a line end":                  redisbroker.Standalone("redis://user:" + secret + "\n@localhost"),
		"a bad cluster":               redisbroker.Cluster("redis://localhost?addr=user:" + secret + "@other:6379"),
		"a bad option of a cluster":   redisbroker.Cluster("redis://user:" + secret + "@localhost?max_redirects=many"),
		"a URL among sentinels":       redisbroker.Sentinel("m", "redis://localhost?addr=redis://user:"+secret+"@other"),
		"a bad sentinel":              redisbroker.Sentinel("m", "redis://user:"+secret+"%zz@localhost"),
		"a bad option of a sentinel":  redisbroker.Sentinel("m", "redis://user:"+secret+"@localhost?db="+"zero&password="+secret),
		"a sentinel without a master": redisbroker.Sentinel("", "redis://user:"+secret+"@localhost?password="+secret),
		"a server that is down":       redisbroker.Standalone("redis://user:" + secret + "@" + closed),
		"a cluster that is down":      redisbroker.Cluster("redis://user:" + secret + "@" + closed),
		"sentinels that are down":     redisbroker.Sentinel("m", "redis://user:"+secret+"@"+closed+"?password="+secret),
		"a host that is none":         redisbroker.Standalone("redis://user:" + secret + "@no.such.host.invalid"),
		"a parrot":                    redisbroker.Standalone("redis://user:" + secret + "@" + parrot),
		"a parrot without users":      redisbroker.Standalone("redis://:" + secret + "@" + parrot),
		"a cluster of parrots":        redisbroker.Cluster("redis://user:" + secret + "@" + parrot),
		"a parrot among sentinels":    redisbroker.Sentinel("m", "redis://user:"+secret+"@"+parrot+"?password="+secret),
		"a client of a parrot":        redisbroker.FromClient(client),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := new(logText)
			a := app.New("test", "1", app.Logger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
				app.StartTimeout(200*time.Millisecond))
			m := a.Broker(b)
			for _, s := range []streamrt.Spec{{Name: "stream", Stream: "s", Group: "g"}, {Name: "list", List: "l"}, {Name: "channel", Channel: "c"}} {
				m.Mount(streamrt.Subscribe(s, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() }))
			}
			published := m.Publish(t.Context(), broker.Stream("s"), 1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := a.Run(ctx)
			if err == nil || published == nil {
				t.Fatalf("Run: %v, Publish: %v", err, published)
			}
			w := httptest.NewRecorder()
			a.HealthHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			for what, text := range map[string]string{
				"Run": err.Error(), "Publish": published.Error(), "the log": log.String(), "/readyz": w.Body.String(),
				"Address": b.Address(), "in full": fmt.Sprintf("%+v %#v %q", err, published, err),
			} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s", what, text)
				}
			}
		})
	}
}
