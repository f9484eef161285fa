package redisbroker

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// shortBlock is the longest wait of one read of a list where the server does not end it on demand: a stop waits for it,
// because closing the connection instead would lose the item that is just being popped.
const shortBlock = 300 * time.Millisecond

// listReader is the connection of a list's blocking reads.
type listReader struct {
	*reader
	source  broker.Source
	stopped func() bool
	// block is the longest wait of one read.
	block time.Duration
}

// newListReader connects, so that nothing is under way that a stop would have to break off, and asks the server whether it
// ends blocked reads on demand (CLIENT UNBLOCK). longest bounds the wait.
func newListReader(ctx context.Context, client redis.UniversalClient, source broker.Source, longest time.Duration, stopped func() bool) (*listReader, error) {
	r := &listReader{source: source, stopped: stopped, block: min(source.Block, longest)}
	r.reader = newReader(route{client, source.Key}, r.block)
	if _, err := r.read(ctx, []any{"PING"}, stopped); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.mu.Lock()
	id, admin := r.connID, r.admin
	r.mu.Unlock()
	// No connection has this number, so that nothing is ended.
	err := admin.ClientUnblock(ctx, 1<<62).Err()
	switch {
	case id == 0 || isRefused(err):
		r.patient = true
		r.block = min(r.block, shortBlock)
	case err != nil:
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// pop sends one command that takes from the list, and returns its raw reply. enough keeps it from being sent.
func (r *listReader) pop(ctx context.Context, enough func() bool, args ...any) ([]byte, error) {
	return r.read(ctx, args, enough)
}

// seconds is a wait as the commands of lists take it.
func seconds(d time.Duration) float64 { return float64(milliseconds(d)) / 1000 }

// items reads a reply that is nothing, one item, or a list of items.
func items(data []byte) ([][]byte, error) {
	r := &reply{data: data}
	switch {
	case len(data) == 0:
		return nil, nil
	case data[0] == '$' && data[1] != '-':
		item, err := r.text()
		return [][]byte{item}, err
	}
	return r.items()
}

// keyedItems reads a reply of [key, item] (BRPOP) or [key, items] (BLMPOP), or nothing.
func keyedItems(data []byte) ([][]byte, error) {
	r := &reply{data: data}
	if len(data) == 0 {
		return nil, nil
	}
	if n, err := r.length(); err != nil || n != 2 {
		if err == nil && n >= 0 {
			err = errReply
		}
		return nil, err
	}
	if _, err := r.text(); err != nil {
		return nil, err
	}
	if r.at < len(r.data) && r.data[r.at] == '$' {
		item, err := r.text()
		return [][]byte{item}, err
	}
	return r.items()
}

func (r *reply) items() ([][]byte, error) {
	n, err := r.length()
	if err != nil || n <= 0 {
		return nil, err
	}
	all := make([][]byte, 0, n)
	for range n {
		item, err := r.text()
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// whenSent runs a command of the pool, and again where it found a connection that an aborted command had closed: nothing
// was sent then, and the pool has dropped it.
func whenSent(ctx context.Context, command func() error) error {
	for {
		err := command()
		if !errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return err
		}
	}
}

// rawRun runs a script call and returns its raw reply.
func rawRun(ctx context.Context, client redis.UniversalClient, args []any) ([]byte, error) {
	data, err := rawReply(ctx, client, args)
	if !isNoScript(err) {
		return data, err
	}
	if err := loadScripts(ctx, client); err != nil {
		return nil, err
	}
	return rawReply(ctx, client, args)
}
