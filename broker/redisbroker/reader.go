package redisbroker

import (
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

// reader is the connection of a subscription's blocking reads, to the server that keeps its key. One goroutine reads;
// interrupt may come from any other.
type reader struct {
	route route
	block time.Duration // the longest wait of one read
	// patient: a read that CLIENT UNBLOCK does not end ends by itself, as soon as block is over.
	patient bool
	// size is about how long the next reply will be. It belongs to the goroutine that reads.
	size int

	mu     sync.Mutex // guards what follows; not held over I/O
	conn   net.Conn
	connID int64         // the server's number for the connection, 0 where it has none
	client *redis.Client // nil until the server has been found
	admin  *redis.Client // the general client of the same server, for CLIENT UNBLOCK
	left   bool          // the server of before did not keep the key any more, or could not be reached

	reading atomic.Bool
	hungUp  atomic.Bool   // the connection was closed on purpose
	ended   chan struct{} // one signal after each read
	wake    chan struct{} // ends a pause
}

// newReader dials nothing yet. block is the longest wait of one read.
func newReader(route route, block time.Duration) *reader {
	return &reader{route: route, block: block, ended: make(chan struct{}, 1), wake: make(chan struct{})}
}

// connect returns the client of the server that keeps the key.
func (r *reader) connect(ctx context.Context) (*redis.Client, error) {
	r.mu.Lock()
	client, anew := r.client, r.left
	r.mu.Unlock()
	if client != nil {
		return client, nil
	}
	node, err := r.route.node(ctx, anew)
	if err != nil {
		return nil, err
	}
	client = redis.NewClient(r.options(node))
	client.AddHook(handshake{})
	if w, ok := r.route.client.(*watched); ok {
		w.list.lead(r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client, r.admin, r.left = client, node, false
	return client, nil
}

// options are those of the general client, for one connection that blocks.
func (r *reader) options(node *redis.Client) *redis.Options {
	options := *node.Options()
	options.MaxRetries = -1
	options.PoolSize, options.MinIdleConns, options.MaxIdleConns, options.PipelinePoolSize = 1, 0, 1, -1
	options.ReadTimeout = r.block + readMargin
	options.ContextTimeoutEnabled = false
	dial := dialer(options.Dialer)
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
		r.mu.Lock()
		r.connID = id
		r.mu.Unlock()
		return nil
	}
	return &options
}

// leave closes the connection, so that the next read looks anew who keeps the key.
func (r *reader) leave() {
	r.mu.Lock()
	client := r.client
	r.client, r.connID, r.left = nil, 0, true
	r.mu.Unlock()
	_ = client.Close() // nothing is read from it any more
}

// read sends one command and returns the raw reply, which the caller owns. stopped is asked after the read has been
// announced: an interrupt that came before finds nothing to end, and must not be lost. Where the key has moved to another
// server the command goes there: the first one has given nothing out.
func (r *reader) read(ctx context.Context, args []any, stopped func() bool) ([]byte, error) {
	r.reading.Store(true)
	defer r.readEnded()
	for n := 0; ; n++ {
		if stopped() {
			return nil, nil
		}
		client, err := r.connect(ctx)
		if err != nil {
			return nil, err
		}
		command := newRawCommand(ctx, args, r.size)
		if err = client.Process(ctx, command); err == nil {
			err = command.refusal()
		}
		if err == nil {
			r.size = len(command.reply.data) + len(command.reply.data)/8
			return command.reply.data, nil
		}
		moved := redirected(err)
		if r.route.changes() && (moved || !isReply(err) && !r.hungUp.Load()) {
			r.leave()
		}
		if !moved || n == redirects {
			return nil, err
		}
	}
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
		if !r.unblock(ctx) && !r.patient {
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
	r.mu.Lock()
	id, admin := r.connID, r.admin
	r.mu.Unlock()
	if id == 0 || admin == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, unblockTime)
	defer cancel()
	return admin.ClientUnblock(ctx, id).Err() == nil
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

// follow ends the read in progress where another server has become the master. What the old one was just handing out is
// undone with everything else that it does by now.
func (r *reader) follow(master net.Addr) {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil && conn.RemoteAddr().String() != master.String() {
		r.hangUp()
	}
}

func (r *reader) close() error {
	if w, ok := r.route.client.(*watched); ok {
		w.list.release(r)
	}
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client == nil {
		return nil
	}
	return client.Close()
}

// pause waits like a read that blocks, and is interrupted like one. It ends, too, when freed gets a token, unless that is nil.
func (r *reader) pause(ctx context.Context, d time.Duration, stopped func() bool, freed <-chan struct{}) error {
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
	case <-freed:
	case <-ctx.Done():
	}
	return nil
}
