// Package embedded is a Redis server inside the process: miniredis behind the production code of redisbroker, scripts
// included. It is for tests and for trying things out; what it holds is gone when it is closed. Connections to it are
// in-memory pipes, so that it also runs on the paused clock of testing/synctest.
//
// It lacks what miniredis lacks: XREADGROUP CLAIM, CLIENT UNBLOCK, ACL, CONFIG and a few others. Where the broker knows
// another way it takes it here, as it does on an older server.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

// Server is one in-process server. It is safe for concurrent use.
type Server struct {
	redis   *miniredis.Miniredis
	address string
	// ends are the server's ends of connections that are being made, by the number that each introduces itself with.
	ends  sync.Map
	dials atomic.Int64
}

// servers numbers the servers of the process, so that their addresses differ.
var servers atomic.Int64

// NewServer starts an empty server. Nothing listens on the network.
func NewServer() *Server {
	m := miniredis.NewMiniRedis()
	// Without it no key would ever expire.
	m.ClockTTL(true)
	s := &Server{redis: m, address: fmt.Sprintf("embedded-%d:6379", servers.Add(1))}
	if c, err := m.Dial(); err == nil { // which cannot fail, and starts the server
		_ = c.Close()
	}
	_ = m.Server().Register(introduction, s.introduced) // nobody else has one of this name
	return s
}

// Client returns a new client of the server, which the caller closes.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.address,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := s.redis.Dial()
			if err != nil {
				return nil, err
			}
			end, err := s.introduce(conn)
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return newPipe(conn, end), nil
		},
		// Nobody waits for a connection: the timers of such waits are shared by all clients of a process, and one that was
		// made outside a bubble of testing/synctest ends the program that uses it inside.
		PoolSize:                 1000,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Broker returns a new broker on the server, as one more process would have. Closing it leaves the server running.
func (s *Server) Broker(options ...redisbroker.Option) *redisbroker.Broker {
	client := s.Client()
	defer client.Close() //nolint:errcheck // it has no connection: only its options are taken
	return redisbroker.FromClient(client, options...)
}

// Close stops the server; its keys are gone.
func (s *Server) Close() { s.redis.Close() }

// Broker is a broker with a server of its own.
type Broker struct {
	*redisbroker.Broker
	server *Server
}

// New returns a broker with an empty server of its own, which lives until the broker is closed.
func New(options ...redisbroker.Option) *Broker {
	server := NewServer()
	return &Broker{server.Broker(options...), server}
}

// Client returns a new client of the broker's server, which the caller closes.
func (b *Broker) Client() *redis.Client { return b.server.Client() }

// Server returns the broker's server.
func (b *Broker) Server() *Server { return b.server }

// Close ends the broker's connections and stops its server.
func (b *Broker) Close(ctx context.Context) error {
	err := b.Broker.Close(ctx)
	b.server.Close()
	return err
}
