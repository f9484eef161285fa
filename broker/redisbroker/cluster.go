package redisbroker

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redirects is how many servers a command is led through before its error counts.
const redirects = 3

// askNodesEvery is how often the client asks who keeps which keys, and who stands behind whom, while nothing fails.
const askNodesEvery = 10 * time.Second

// cluster is a Redis Cluster, whose keys live on many servers.
type cluster struct{ options *redis.ClusterOptions }

func newCluster(options redis.ClusterOptions) cluster {
	options.MaxRetries, options.DialerRetries, options.ContextTimeoutEnabled = -1, 1, true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.ReadOnly, options.RouteByLatency, options.RouteRandomly = false, false, false
	// Every command of ours has its key where it belongs; the policies would first ask the server for its list of commands.
	options.DisableRoutingPolicies = true
	options.MaxRedirects = max(options.MaxRedirects, redirects)
	// A replica has to be known before its master dies: where that is the only server that is known, nobody is left to ask.
	if every := options.ClusterStateReloadInterval; every <= 0 || every > askNodesEvery {
		options.ClusterStateReloadInterval = askNodesEvery
	}
	return cluster{&options}
}

func (c cluster) address() string { return "cluster " + strings.Join(c.options.Addrs, ", ") }

func (c cluster) client(list *connections) redis.UniversalClient {
	options := *c.options
	client := redis.NewClusterClient(&options)
	client.OnNewNode(func(node *redis.Client) {
		node.AddHook(list)
		node.AddHook(handshake{})
		node.AddHook(rawRedirects{})
	})
	client.AddHook(handshake{})
	client.AddHook(sendOnce{client})
	return client
}

// sendOnce keeps the cluster client from sending a command again after a network error: the lost reply may have been that
// of a write that was carried out. It goes on following redirects, for the server that redirects has done nothing.
type sendOnce struct{ client *redis.ClusterClient }

// once is a command that is sent once.
type once struct{ redis.Cmder }

// NoRetry is what the client asks before it sends a command again.
func (once) NoRetry() bool { return true }

func (h sendOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h sendOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if !command.NoRetry() {
			command = once{command}
		}
		return h.watch(ctx, next(ctx, command))
	}
}

func (h sendOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		sent := make([]redis.Cmder, len(commands))
		for i, c := range commands {
			sent[i] = once{c}
		}
		return h.watch(ctx, next(ctx, sent))
	}
}

// watch has the client look again who keeps which keys when a server could not be reached: its keys may have gone to a
// replica, and nobody would be left to redirect us there.
func (h sendOnce) watch(ctx context.Context, err error) error {
	if err != nil && !isReply(err) && ctx.Err() == nil {
		h.client.ReloadState(ctx)
	}
	return err
}

// rawRedirects lets the cluster client see the redirects in raw replies, which it would take for answers.
type rawRedirects struct{}

func (rawRedirects) DialHook(next redis.DialHook) redis.DialHook { return next }

func (rawRedirects) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if raw, ok := command.(*rawCommand); ok && err == nil {
			err = raw.refusal()
		}
		return err
	}
}

func (rawRedirects) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redirected tells that a server has sent the command elsewhere, and has not carried it out.
func redirected(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "MOVED ") || strings.HasPrefix(err.Error(), "ASK "))
}

// route leads to the server that keeps a key.
type route struct {
	client redis.UniversalClient
	key    string
}

// node returns the general client's own client for that server. anew: what was found before has turned out wrong.
func (r route) node(ctx context.Context, anew bool) (*redis.Client, error) {
	switch c := r.client.(type) {
	case *redis.ClusterClient:
		if anew {
			// It loads the state before it calls anything; ReloadState would do so later.
			if err := c.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }); err != nil {
				return nil, err
			}
		}
		return c.MasterForKey(ctx, r.key)
	case *redis.Client:
		return c, nil
	case *watched:
		return c.Client, nil
	default:
		return nil, unsupported(c)
	}
}

// changes tells whether the key may come to live on another server.
func (r route) changes() bool {
	_, ok := r.client.(*redis.ClusterClient)
	return ok
}

// everyNode runs f for each server that keeps keys.
func everyNode(ctx context.Context, client redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	case *watched:
		return f(ctx, c.Client)
	default:
		return unsupported(c)
	}
}
