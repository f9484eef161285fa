package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// bench is one measurement under way. A subject prepares, calls begin, works, and calls end with the number of messages.
type bench struct {
	ctx         context.Context
	url         string
	client      *redis.Client
	n           int
	concurrency int
	profile     string

	before, after readings
	done          int
	failed        error      // of the profile
	mu            sync.Mutex // guards latencies
	latencies     []time.Duration
	extra         map[string]float64
}

// readings are the counters of client and server at one moment.
type readings struct {
	at       time.Time
	cpu      time.Duration
	server   float64
	commands int64
	mallocs  uint64
}

// sample is what one measurement found. Figures that a scenario does not measure are 0.
type sample struct {
	Messages int     `json:"messages"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"rate"`
	// ClientCPU and ServerCPU are seconds for 100,000 messages.
	ClientCPU float64 `json:"client_cpu"`
	ServerCPU float64 `json:"server_cpu"`
	// Commands counts those inside scripts, too.
	Commands float64 `json:"commands"`
	Allocs   float64 `json:"allocs"`
	// P50 and P99 are milliseconds.
	P50   float64            `json:"p50,omitempty"`
	P99   float64            `json:"p99,omitempty"`
	Extra map[string]float64 `json:"extra,omitempty"`
}

func (s sample) String() string {
	text := fmt.Sprintf("%.0f/s, %.3f commands, %.1f allocs, CPU %.2f + %.2f s", s.Rate, s.Commands, s.Allocs, s.ClientCPU, s.ServerCPU)
	if s.P99 > 0 {
		text += fmt.Sprintf(", p50 %.2f p99 %.2f ms", s.P50, s.P99)
	}
	for _, k := range sortedKeys(s.Extra) {
		text += fmt.Sprintf(", %s %.3g", k, s.Extra[k])
	}
	return text
}

// measure makes one measurement in this process.
func measure(ctx context.Context, c config) (sample, error) {
	name, who, _ := strings.Cut(c.one, "/")
	for _, s := range scenarios {
		for _, subject := range s.subjects {
			if s.name != name || subject.name != who {
				continue
			}
			options, err := redis.ParseURL(c.redis)
			if err != nil {
				return sample{}, err
			}
			client := redis.NewClient(options)
			defer client.Close() //nolint:errcheck // the process ends
			n := max(int(float64(s.n)*c.scale/float64(max(subject.slow, 1))), 1000)
			b := &bench{ctx: ctx, url: c.redis, client: client, n: n, concurrency: s.concurrency, profile: c.profile, extra: make(map[string]float64)}
			if err := client.FlushDB(ctx).Err(); err != nil {
				return sample{}, err
			}
			if err := subject.run(b); err != nil {
				return sample{}, err
			}
			return b.sample(), errors.Join(b.failed, client.FlushDB(ctx).Err())
		}
	}
	return sample{}, fmt.Errorf("no such measurement: see -list")
}

func (b *bench) begin() {
	runtime.GC()
	b.startProfile()
	b.before = b.read()
}

func (b *bench) end(n int) {
	b.after = b.read()
	b.done = n
	pprof.StopCPUProfile()
}

func (b *bench) startProfile() {
	if b.profile == "" {
		return
	}
	file, err := os.Create(b.profile)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	b.failed = err
}

func (b *bench) read() readings {
	var r readings
	info := b.client.Info(b.ctx, "cpu", "stats").Val()
	r.server = infoField(info, "used_cpu_user") + infoField(info, "used_cpu_sys")
	r.commands = int64(infoField(info, "total_commands_processed"))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.mallocs = mem.Mallocs
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		r.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	r.at = time.Now()
	return r
}

func infoField(info, name string) float64 {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			f, _ := strconv.ParseFloat(strings.TrimSpace(value), 64) // what no server says counts as nothing
			return f
		}
	}
	return 0
}

func (b *bench) sample() sample {
	n, took := float64(max(b.done, 1)), b.after.at.Sub(b.before.at).Seconds()
	s := sample{
		Messages: b.done, Seconds: took, Rate: float64(b.done) / took,
		ClientCPU: (b.after.cpu - b.before.cpu).Seconds() / n * 100_000,
		ServerCPU: (b.after.server - b.before.server) / n * 100_000,
		Commands:  float64(b.after.commands-b.before.commands-1) / n,
		Allocs:    float64(b.after.mallocs-b.before.mallocs) / n,
		Extra:     b.extra,
	}
	if len(b.latencies) > 0 {
		slices.Sort(b.latencies)
		s.P50, s.P99 = milliseconds(quantile(b.latencies, 0.5)), milliseconds(quantile(b.latencies, 0.99))
	}
	return s
}

func (b *bench) late(d time.Duration) {
	b.mu.Lock()
	b.latencies = append(b.latencies, d)
	b.mu.Unlock()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(math.Ceil(q*float64(len(sorted))))-1, len(sorted)-1)]
}

// order is a payload of about 200 bytes. Sent is when it was published, in nanoseconds, where that is of interest.
type order struct {
	ID       int      `json:"id"`
	Sent     int64    `json:"sent,omitempty"`
	Customer string   `json:"customer"`
	Note     string   `json:"note"`
	Lines    []string `json:"lines"`
	Cents    int      `json:"cents"`
}

func newOrder(id int, sent int64) order {
	return order{
		ID: id, Sent: sent, Customer: "c-193847", Note: "leave it at the door, the bell does not work",
		Lines: []string{"2 x blue kettle", "1 x tea, assam, 500 g", "1 x cup, large"}, Cents: 4599,
	}
}

func (o order) body() []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // an order has nothing that cannot be written
	}
	return body
}

// pipelined sends n commands in pipelines of a thousand.
func (b *bench) pipelined(n int, add func(p redis.Pipeliner, i int)) error {
	for i := 0; i < n; i += 1000 {
		_, err := b.client.Pipelined(b.ctx, func(p redis.Pipeliner) error {
			for j := i; j < min(i+1000, n); j++ {
				add(p, j)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// until polls quickly; the caller has a deadline in the context of the whole run.
func (b *bench) until(what string, done func() bool) error {
	for deadline := time.Now().Add(5 * time.Minute); !done(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited five minutes for: %s", what)
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// describe names the server and the machine.
func describe(ctx context.Context, url string) (string, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return "", err
	}
	client := redis.NewClient(options)
	defer client.Close() //nolint:errcheck // it was only asked
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("the server does not answer: %w", err)
	}
	name, version := "Redis", ""
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok && version == "" {
			version = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "valkey_version:"); ok {
			name, version = "Valkey", strings.TrimSpace(v)
		}
	}
	return fmt.Sprintf("%s %s, %s, %d CPUs", name, version, runtime.Version(), runtime.NumCPU()), nil
}
