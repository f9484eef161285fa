package embedded

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// introduction is the command that a new connection begins with, so that both its ends are known. No other has it.
const introduction = "EMBEDDED.INTRODUCE"

// introduce finds the server's end of a connection that nobody has written to.
func (s *Server) introduce(c net.Conn) (*server.Peer, error) {
	number := strconv.FormatInt(s.dials.Add(1), 10)
	if _, err := fmt.Fprintf(c, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(introduction), introduction, len(number), number); err != nil {
		return nil, err
	}
	// Nothing but this answer comes until something else is asked.
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		return nil, err
	}
	end, ok := s.ends.LoadAndDelete(number)
	if !ok {
		return nil, net.ErrClosed
	}
	return end.(*server.Peer), nil
}

// introduced answers an introduction.
func (s *Server) introduced(end *server.Peer, _ string, args []string) {
	if len(args) == 1 {
		s.ends.Store(args[0], end)
	}
	end.WriteOK()
}

// pipe gives the client's end of an in-memory connection what a socket has and net.Pipe lacks: room for what was
// written and not yet read. Without it a pipeline stands still, because the server answers its first command, and waits
// to be read, while the client is still writing the rest.
type pipe struct {
	net.Conn
	// end is the server's end of it.
	end *server.Peer

	mu     sync.Mutex // guards waiting and closed; not held over I/O
	closed bool
	// waiting holds what was written; it is swapped against an empty buffer by the goroutine that passes it on.
	waiting []byte
	wake    chan struct{}
}

func newPipe(c net.Conn, end *server.Peer) *pipe {
	p := &pipe{Conn: c, end: end, wake: make(chan struct{}, 1)}
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

// Close ends the connection and the goroutine behind it. When it returns the server knows: a read that blocks there is
// given nothing any more. It would find out by itself, but a message that is published meanwhile would be taken by a
// process that has stopped.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	err := p.Conn.Close()
	p.end.Close() // after the connection: it waits for an answer that is being written
	return err
}

// SetDeadline is for reading alone, as writing never waits.
func (p *pipe) SetDeadline(t time.Time) error { return p.Conn.SetReadDeadline(t) }

// SetWriteDeadline does nothing.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
