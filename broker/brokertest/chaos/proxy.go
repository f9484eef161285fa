package chaos

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy passes TCP connections on to a server, and cuts one when told to: after the request with a certain text in it was
// forwarded, and before its reply goes back. The server has carried the request out by then, and the client does not know.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	trap  *trap
	// refusing: connections are accepted and closed.
	refusing bool
}

// trap waits for a request.
type trap struct {
	text []byte
	// skip is how many requests with the text pass before one is cut off.
	skip int
	// sprung is closed when the connection has been cut.
	sprung chan struct{}
}

// newProxy listens on the loopback until the test ends. The address is a Redis URL.
func newProxy(t testing.TB, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: u.Host, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// url is the server's URL by way of the proxy.
func (p *proxy) url(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // newProxy has parsed it before
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// cut sets a trap: the request that holds the text, after skip others that do, loses its reply and its connection. The
// channel is closed when that has happened.
func (p *proxy) cut(text string, skip int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = &trap{text: []byte(text), skip: skip, sprung: make(chan struct{})}
	return p.trap.sprung
}

// refuse closes every connection, and from then on each new one as soon as it is accepted; or ends that.
func (p *proxy) refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
	if on {
		for c := range p.conns {
			_ = c.Close() // it may be about to end by itself
		}
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // as a server that is down would
			continue
		}
		l := &link{proxy: p, client: client, server: server}
		if !p.hold(client, server) {
			_, _ = client.Close(), server.Close() // nobody has used them
			continue
		}
		p.running.Go(l.requests)
		p.running.Go(l.replies)
	}
}

// hold keeps the connections for the end of the test. It reports whether they may be used.
func (p *proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) close() {
	err := p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		err = errors.Join(err, c.Close())
	}
	p.mu.Unlock()
	p.running.Wait()
	_ = err // some were closed before
}

// link is one connection through the proxy.
type link struct {
	proxy          *proxy
	client, server net.Conn
	// tail are the last bytes of what was sent, where a text may begin that goes on in the next piece.
	tail []byte

	mu sync.Mutex
	// cutting is the trap that this connection has sprung: its next reply is the one that must not arrive.
	cutting *trap
}

func (l *link) requests() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		l.watch(buffer[:n])
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// watch looks for the text of the trap before the piece is passed on: its reply may be there at once.
func (l *link) watch(piece []byte) {
	p := l.proxy
	p.mu.Lock()
	t := p.trap
	seen := append(l.tail, piece...)
	if t == nil {
		l.tail = l.tail[:0]
		p.mu.Unlock()
		return
	}
	found := bytes.Contains(seen, t.text)
	l.tail = append([]byte(nil), seen[max(0, len(seen)-len(t.text)+1):]...)
	if found {
		l.tail = nil
		if t.skip--; t.skip >= 0 {
			found = false
		} else {
			p.trap = nil
		}
	}
	p.mu.Unlock()
	if found {
		l.mu.Lock()
		l.cutting = t
		l.mu.Unlock()
	}
}

func (l *link) replies() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		t := l.cutting
		l.mu.Unlock()
		if t != nil {
			l.close()
			close(t.sprung)
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// close ends both sides; whoever comes second finds them closed.
func (l *link) close() {
	l.proxy.mu.Lock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
	l.proxy.mu.Unlock()
	_ = l.client.Close()
	_ = l.server.Close()
}
