package redisbroker_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// cutter is a proxy that forwards a command and cuts the connection before its reply.
type cutter struct {
	listener net.Listener
	db       int

	mu  sync.Mutex
	cut []byte // cut the connection that sends this; nil for none
}

func newCutter(t *testing.T, server *redis.Options) *cutter {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, db: server.DB}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server.Addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			go c.serve(client, upstream)
		}
	}()
	return c
}

func (c *cutter) url() string { return fmt.Sprintf("redis://%s/%d", c.listener.Addr(), c.db) }

// cutReplyTo cuts the next connection that sends the text, once what it has sent was forwarded and answered.
func (c *cutter) cutReplyTo(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = []byte(text)
}

// due reports, once, that data is what the connection is to be cut for.
func (c *cutter) due(data []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil || !bytes.Contains(bytes.ToLower(data), c.cut) {
		return false
	}
	c.cut = nil
	return true
}

func (c *cutter) serve(client, upstream net.Conn) {
	defer client.Close()
	defer upstream.Close()
	var mu sync.Mutex
	silent := false
	go func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := upstream.Read(buffer)
			mu.Lock()
			cut := silent
			mu.Unlock()
			if cut || err != nil {
				return // the server has answered, and nobody hears it
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if c.due(buffer[:n]) {
			mu.Lock()
			silent = true
			mu.Unlock()
		}
		if _, err := upstream.Write(buffer[:n]); err != nil {
			return
		}
	}
}
