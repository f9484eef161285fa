package redisbroker

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/millrace-go/millrace/broker"
)

const (
	// A connection on which nothing came for pingAfter is sent a PING; it is dead where nothing comes for pongWithin then.
	pingAfter  = 10 * time.Second
	pongWithin = 5 * time.Second
)

var (
	ping      = []byte("*1\r\n$4\r\nPING\r\n")
	errSilent = errors.New("the server does not answer a PING; the connection is taken for dead")
)

// channelConnection is a connection that waits for what is published, which may be long in coming. It finds out by itself
// whether there is still somebody at the other end, so that nobody has to interrupt a message of which a part has come.
type channelConnection struct {
	net.Conn
	// heard is when something last came. It belongs to the goroutine that reads.
	heard time.Time
	// waiting: the reader has set no deadline.
	waiting bool
	// failed is why nothing will come any more. go-redis passes over the error of a first look.
	failed error
	// pulse is taken while the reader waits for what is published: the handshake proves no subscription.
	pulse broker.Pulse
}

func newChannelConnection(c net.Conn, pulse broker.Pulse) *channelConnection {
	return &channelConnection{Conn: c, heard: time.Now(), pulse: pulse}
}

// SetReadDeadline heeds the deadlines of the handshake. Without one the connection looks after itself.
func (c *channelConnection) SetReadDeadline(t time.Time) error {
	c.waiting = t.IsZero()
	if c.waiting {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// Read waits as long as the server answers.
func (c *channelConnection) Read(b []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.read(b)
	switch {
	case n > 0:
		c.heard = time.Now()
		if c.waiting {
			c.pulse(nil)
		}
	case c.waiting:
		c.failed = err
	}
	return n, err
}

func (c *channelConnection) read(b []byte) (int, error) {
	if !c.waiting {
		return c.Conn.Read(b)
	}
	n, err := c.readFor(b, pingAfter)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	err = c.SetWriteDeadline(time.Now().Add(pongWithin))
	if err == nil {
		_, err = c.Write(ping)
	}
	if err != nil {
		return 0, err
	}
	n, err = c.readFor(b, pongWithin)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return n, err
}

func (c *channelConnection) readFor(b []byte, d time.Duration) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}
