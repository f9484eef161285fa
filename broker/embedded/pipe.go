package embedded

import (
	"net"
	"sync"
	"time"
)

// pipe gives the client's end of an in-memory connection what a socket has and net.Pipe lacks: room for what was
// written and not yet read. Without it a pipeline stands still, because the server answers its first command, and waits
// to be read, while the client is still writing the rest.
type pipe struct {
	net.Conn
	mu     sync.Mutex // guards waiting and closed; not held over I/O
	closed bool
	// waiting holds what was written; it is swapped against an empty buffer by the goroutine that passes it on.
	waiting []byte
	wake    chan struct{}
}

func newPipe(c net.Conn) *pipe {
	p := &pipe{Conn: c, wake: make(chan struct{}, 1)}
	go p.passOn()
	return p
}

// Write never blocks.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.waiting = append(p.waiting, b...)
	}
	p.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	p.signal()
	return len(b), nil
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// passOn ends with the connection.
func (p *pipe) passOn() {
	var out []byte
	for range p.wake {
		p.mu.Lock()
		out, p.waiting = p.waiting, out[:0]
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		if len(out) > 0 {
			if _, err := p.Conn.Write(out); err != nil {
				return
			}
		}
	}
}

// Close ends the connection and the goroutine behind it.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	return p.Conn.Close()
}

// SetDeadline is for reading alone, as writing never waits.
func (p *pipe) SetDeadline(t time.Time) error { return p.Conn.SetReadDeadline(t) }

// SetWriteDeadline does nothing.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
