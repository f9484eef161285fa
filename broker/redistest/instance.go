package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// process is a server that redistest started. Stopping one that is stopped is no error.
type process interface {
	stop(ctx context.Context) error
	start(ctx context.Context) error
	// gone is an error where the server has ended by itself.
	gone(ctx context.Context) error
	// remove ends it for good, with everything that it left on the machine.
	remove(ctx context.Context) error
}

// instance is a server that answers.
type instance struct {
	kind    kind
	base    *url.URL
	version string
	proc    process // nil where the server is somebody else's
	shared  bool    // another instance removes the process
	tls     *tls.Config
	dbs     *databases
	alone   chan struct{} // full while a test has the shared cluster
}

// connect makes the instance of a server at base, once it answers.
func connect(ctx context.Context, k kind, base *url.URL, proc process) (*instance, error) {
	return connectWith(ctx, &instance{kind: k, base: base, proc: proc})
}

// connectWith completes an instance once its server answers.
func connectWith(ctx context.Context, in *instance) (*instance, error) {
	if err := in.answer(ctx); err != nil {
		return nil, err
	}
	c := in.client(0)
	defer c.Close() //nolint:errcheck // it held one read
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", in.url(0), err)
	}
	in.version = versionOf(info)
	in.dbs = newDatabases(in, in.proc == nil)
	return in, nil
}

// answer waits until the server has started and loaded its data. The first ten tries come quickly because a server
// without data is up within a few milliseconds.
func (in *instance) answer(ctx context.Context) error {
	opts, err := in.options(0)
	if err != nil {
		return err
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	c := redis.NewClient(opts)
	defer c.Close() //nolint:errcheck // nothing was written
	for try := 0; ; try++ {
		// The bare connection first: the client logs each failed dial.
		raw, err := redis.NewDialer(opts)(ctx, opts.Network, opts.Addr)
		if err == nil {
			_ = raw.Close()
			err = c.Ping(ctx).Err()
		}
		if err == nil {
			return nil
		}
		pause := 10 * time.Millisecond
		if try >= 10 {
			pause = 100 * time.Millisecond
			if in.proc != nil {
				if err := in.proc.gone(ctx); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s at %s does not answer: %w", in.kind.name(), in.base.Redacted(), err)
		case <-time.After(pause):
		}
	}
}

// url is the server's address with a logical database.
func (in *instance) url(db int) string {
	u := *in.base
	if u.Scheme == "unix" {
		q := u.Query()
		q.Set("db", strconv.Itoa(db))
		u.RawQuery = q.Encode()
		return u.String()
	}
	u.Path = "/" + strconv.Itoa(db)
	return u.String()
}

// client makes a client for one database. The URL was parsed before, so it cannot be wrong here.
func (in *instance) client(db int) *redis.Client {
	opts, err := in.options(db)
	if err != nil {
		panic("redistest: " + err.Error())
	}
	return redis.NewClient(opts)
}

func (in *instance) options(db int) (*redis.Options, error) {
	opts, err := redis.ParseURL(in.url(db))
	if err == nil && in.tls != nil {
		opts.TLSConfig = in.tls.Clone()
	}
	return opts, err
}

// remove ends a server that redistest started.
func (in *instance) remove() error {
	if in.proc == nil || in.shared {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return in.proc.remove(ctx)
}

// versionOf reads the version from INFO; Valkey reports its own beside a Redis version for old clients.
func versionOf(info string) string {
	var version string
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "valkey_version":
			return value
		case "redis_version":
			version = value
		}
	}
	return version
}
