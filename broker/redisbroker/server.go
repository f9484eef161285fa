package redisbroker

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// server is what a broker was told to connect to. Its options are the broker's own copy: no write is sent twice by the
// client, and nothing is read from a replica.
type server interface {
	// address names it in logs, without user or password.
	address() string
	// client returns a new client for everything but blocking reads. The connections that it makes are on the list.
	client(list *connections) redis.UniversalClient
}

// single is one server, or whichever server the dialer of the options leads to.
type single struct{ options *redis.Options }

func newSingle(options redis.Options) single {
	// A settlement whose reply was lost is repeated by us, after a look at what it did; the client must not do it.
	options.MaxRetries = -1
	// One attempt a dial: waiting and trying again is the caller's, who knows when to stop.
	options.DialerRetries = 1
	options.ContextTimeoutEnabled = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return single{&options}
}

// failoverName is what go-redis calls the server of a client from NewFailoverClient.
const failoverName = "FailoverClient"

func (s single) address() string {
	if s.options.Addr == failoverName {
		return "the master that a sentinel names"
	}
	if s.options.DB != 0 {
		return fmt.Sprintf("%s/%d", s.options.Addr, s.options.DB)
	}
	return s.options.Addr
}

func (s single) client(list *connections) redis.UniversalClient {
	options := *s.options
	c := redis.NewClient(&options)
	c.AddHook(list)
	c.AddHook(handshake{})
	return c
}

// sentinel is the master of the moment, which the sentinels name at every dial.
type sentinel struct{ options *redis.FailoverOptions }

func newSentinel(options redis.FailoverOptions) sentinel {
	options.MaxRetries, options.DialerRetries, options.ContextTimeoutEnabled = -1, 1, true
	options.ReplicaOnly, options.RouteByLatency, options.RouteRandomly = false, false, false
	options.Dialer = dialer(redis.NewDialer(&redis.Options{DialTimeout: options.DialTimeout, TLSConfig: options.TLSConfig}))
	return sentinel{&options}
}

func (s sentinel) address() string {
	name := fmt.Sprintf("%s (sentinels %s)", s.options.MasterName, strings.Join(s.options.SentinelAddrs, ", "))
	if s.options.DB != 0 {
		name += fmt.Sprintf("/%d", s.options.DB)
	}
	return name
}

func (s sentinel) client(list *connections) redis.UniversalClient {
	options := *s.options
	c := redis.NewFailoverClient(&options)
	c.AddHook(list)
	c.AddHook(handshake{})
	return &watched{c, list}
}

// watched is the client of a master that sentinels watch. They tell it of a failover at once, and it closes its connections;
// a master that only gave the role away goes on serving those that it has, for seconds.
type watched struct {
	*redis.Client
	list *connections
}

// errUnclear is what is said of a URL that is not the one that was meant. net/url puts the whole of it into its errors.
var errUnclear = errors.New("it cannot be parsed; a special character in the password has to be percent-encoded (%2F for a slash)")

// readable reports a URL that net/url takes apart in the wrong place, because the password has a slash or the like in it: what
// it calls the host and the path may be secret.
func readable(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "unix" && parsed.User == nil && strings.Contains(parsed.Path+parsed.Fragment, "@") {
		return errUnclear
	}
	for _, server := range parsed.Query()["addr"] {
		if strings.Contains(server, "@") {
			return errNoAddress
		}
	}
	return nil
}

// errNoAddress is what is said of a URL, or a part of one, where another server's host and port should be.
var errNoAddress = errors.New("addr= takes host:port alone; user and password stand once, before the first host")
