// Package stage is what the demonstrations of the examples stand on: a server inside the process or a real one, services
// that run on it, and lines that say what happens and when.
package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// long is what a demonstration may take at most.
const long = time.Minute

// Stage is one server for one demonstration. Close it in the end. Its methods are safe for concurrent use.
type Stage struct {
	// Where says which server it is, for the first line of a demonstration.
	Where string

	mu     sync.Mutex // one line at a time
	out    io.Writer
	began  time.Time
	prefix string
	client *redis.Client
	broker func() broker.Broker
	end    func()
}

// Main is the main function of a demonstration: it takes the server from the flag -redis, and ends the process with 1
// where the demonstration fails or takes longer than a minute. With the flag -keep what it wrote stays there.
func Main(name string, demo func(context.Context, *Stage) error) {
	url := flag.String("redis", "", "address of a Redis or Valkey server, as redis://host:port/db; a server inside the process if empty")
	keep := flag.Bool("keep", false, "leave on the server of -redis what was written, each key behind "+keptPrefix+", and go on with what is there")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	s, err := open(*url, os.Stdout, *keep)
	if err == nil {
		err = demo(ctx, s)
		s.Close()
	}
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Play runs a demonstration on a server inside the process, and returns what it printed.
func Play(ctx context.Context, demo func(context.Context, *Stage) error) (string, error) {
	var out strings.Builder
	s, err := Open("", &out)
	if err != nil {
		return "", err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	err = demo(ctx, s)
	return out.String(), err
}

// Open prepares a server inside the process or, where url is not empty, the one at that address. There every key gets a
// prefix of its own, and Close removes what was written.
func Open(url string, out io.Writer) (*Stage, error) { return open(url, out, false) }

// keptPrefix stands before every key of a demonstration whose keys are kept.
const keptPrefix = "example:"

func open(url string, out io.Writer, keep bool) (*Stage, error) {
	s := &Stage{out: out, began: time.Now()}
	if url == "" {
		if keep {
			return nil, errors.New("-keep: a server inside the process keeps nothing; give -redis an address")
		}
		server := embedded.NewServer()
		s.Where, s.client, s.end = "a server inside this process", server.Client(), server.Close
		s.broker = func() broker.Broker { return server.Broker() }
		return s, nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("-redis: not an address that can be used; write redis://host:port/db")
	}
	options.MaxRetries = -1 // cleaning up a server that is gone is not worth a wait
	s.Where, s.client = "redis at "+options.Addr, redis.NewClient(options)
	s.prefix = fmt.Sprintf("millrace-example-%x:", s.began.UnixNano())
	s.broker = func() broker.Broker { return redisbroker.Standalone(url, redisbroker.KeyPrefix(s.prefix)) }
	s.end = s.cleanUp
	if keep {
		s.prefix, s.end = keptPrefix, func() {}
	}
	return s, nil
}

// Broker returns a new broker on the server, as one more process would have.
func (s *Stage) Broker() broker.Broker { return s.broker() }

// Client returns a client of the server, for what a service does not do: to look at keys, and to write as other programs
// do.
func (s *Stage) Client() *redis.Client { return s.client }

// Key returns the full name of a key or a channel on the server.
func (s *Stage) Key(name string) string { return s.prefix + name }

// Say prints a line with the seconds since the stage was opened in front of it.
func (s *Stage) Say(format string, args ...any) {
	s.Print("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// Print prints text as it is.
func (s *Stage) Print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

// Close forgets the server, or what was written to it.
func (s *Stage) Close() {
	s.end()
	_ = s.client.Close()
}

func (s *Stage) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	keys := s.client.Scan(ctx, 0, "*"+s.prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		s.client.Del(ctx, keys.Val())
	}
}
