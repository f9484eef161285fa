package redisbroker

import (
	"context"
	"net"
	"time"
)

// dialFunc is how go-redis dials.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer dials as given, with the one change that a server which cannot be reached gives a connection that fails at its
// first use. go-redis would write each failed dial to the process's standard error, past the app's logger, and hold back
// later dials; the error that the command returns is the same.
func dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return &unreachable{&dialError{hide(err)}}, nil
		}
		return conn, nil
	}
}

// dialError is why no connection could be made.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// unreachable is the connection to a server that could not be dialed.
type unreachable struct{ err error }

func (c *unreachable) Read([]byte) (int, error)         { return 0, c.err }
func (c *unreachable) Write([]byte) (int, error)        { return 0, c.err }
func (c *unreachable) Close() error                     { return nil }
func (c *unreachable) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *unreachable) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *unreachable) SetDeadline(time.Time) error      { return nil }
func (c *unreachable) SetReadDeadline(time.Time) error  { return nil }
func (c *unreachable) SetWriteDeadline(time.Time) error { return nil }
