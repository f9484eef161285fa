package redistest

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

// envKind is the server that MILLRACE_REDIS_URL names.
type envKind struct{ raw string }

func (envKind) name() string { return nameEnv }

// launch only connects. It never reports a missing server: an address that somebody gave is meant to work.
func (k envKind) launch(ctx context.Context, _ []string, _ bool) (*instance, error) {
	base, err := url.Parse(k.raw)
	if err == nil {
		_, err = redis.ParseURL(k.raw)
	}
	if err != nil {
		// The error repeats what was given, a password perhaps.
		return nil, fmt.Errorf("%s: no URL that can be used; write redis://user:password@host:port/db, and special characters as %%2F", EnvURL)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	in, err := connect(ctx, k, base, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, err)
	}
	return in, nil
}
