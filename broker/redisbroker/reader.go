package redisbroker

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// readMargin is how much longer than its block a read may take before the connection counts as dead.
const readMargin = 5 * time.Second

// unblockTime is how long the server may take to end a read before the connection is closed instead.
const unblockTime = 500 * time.Millisecond

// reader is the connection of a subscription's blocking reads. One goroutine reads; interrupt may come from any other.
type reader struct {
	client *redis.Client
	admin  *redis.Client // for CLIENT UNBLOCK

	connID atomic.Int64 // the server's number for the connection, 0 where it has none
	mu     sync.Mutex   // guards conn; not held over I/O
	conn   net.Conn

	reading atomic.Bool
	hungUp  atomic.Bool   // the connection was closed on purpose
	ended   chan struct{} // one signal after each read
	wake    chan struct{} // ends a pause
}

// newReader dials nothing yet. block is the longest wait of one read.
func newReader(base *redis.Options, admin *redis.Client, block time.Duration) *reader {
	r := &reader{admin: admin, ended: make(chan struct{}, 1), wake: make(chan struct{})}
	options := *base
	options.PoolSize, options.MinIdleConns, options.MaxIdleConns = 1, 0, 1
	options.ReadTimeout = block + readMargin
	options.ContextTimeoutEnabled = false
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			r.mu.Lock()
			r.conn = conn
			r.mu.Unlock()
		}
		return conn, err
	}
	onConnect := options.OnConnect
	options.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if onConnect != nil {
			if err := onConnect(ctx, cn); err != nil {
				return err
			}
		}
		// A server that has no such command, or refuses it, is interrupted by closing the connection.
		id, err := cn.ClientID(ctx).Result()
		if err != nil && !isRefused(err) {
			return err
		}
		r.connID.Store(id)
		return nil
	}
	r.client = redis.NewClient(&options)
	return r
}

// read sends one command and returns the raw reply, which the caller owns. stopped is asked after the read has been
// announced: an interrupt that came before finds nothing to end, and must not be lost.
func (r *reader) read(ctx context.Context, args []any, stopped func() bool) ([]byte, error) {
	r.reading.Store(true)
	defer r.readEnded()
	if stopped() {
		return nil, nil
	}
	var buffer bytes.Buffer
	err := r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, &buffer, args...))
	return buffer.Bytes(), err
}

func (r *reader) readEnded() {
	r.reading.Store(false)
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// interrupt ends the read in progress, if there is one, and returns when it has ended. Closing the connection instead
// would strand what the server is just handing out, so that it is done only where CLIENT UNBLOCK is not to be had. The
// command does nothing to a read that has not begun to block, and is therefore repeated.
func (r *reader) interrupt(ctx context.Context) {
	for wait := time.Millisecond; r.reading.Load(); wait = min(2*wait, 50*time.Millisecond) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
		if !r.unblock(ctx) {
			r.hangUp()
		}
		timer := time.NewTimer(wait)
		select {
		case <-r.ended:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			r.hangUp()
			return
		}
		timer.Stop()
	}
}

func (r *reader) unblock(ctx context.Context) bool {
	id := r.connID.Load()
	ctx, cancel := context.WithTimeout(ctx, unblockTime)
	defer cancel()
	return id != 0 && r.admin.ClientUnblock(ctx, id).Err() == nil
}

func (r *reader) hangUp() {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		r.hungUp.Store(true)
		_ = conn.Close() // the read reports what becomes of it
	}
}

func (r *reader) close() error { return r.client.Close() }

// pause waits like a read that blocks, and is interrupted like one.
func (r *reader) pause(ctx context.Context, d time.Duration, stopped func() bool) error {
	r.reading.Store(true)
	defer r.readEnded()
	if stopped() {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
	}
	return nil
}
