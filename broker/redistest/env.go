package redistest

import (
	"context"
	"errors"
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
	if _, err := redis.ParseURL(k.raw); err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, withoutURL(err))
	}
	base, err := url.Parse(k.raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, withoutURL(err))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	in, err := connect(ctx, k, base, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, err)
	}
	return in, nil
}

// withoutURL takes the address, which may hold a password, out of a parse error.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}
