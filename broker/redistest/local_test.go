package redistest

import (
	"os"
	"strings"
	"testing"
)

func TestLocalBinaryStartsAndLeavesNothing(t *testing.T) {
	path, err := findBinary()
	if err != nil {
		t.Skipf("%v: install redis-server 7.0 or later to run this test", err)
	}
	in, err := launch(binaryKind{path}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p := in.proc.(*binaryProcess)
	if !strings.HasPrefix(in.url(1), "redis://127.0.0.1:") {
		t.Errorf("it listens at %s", in.url(1))
	}
	if err := in.remove(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	default:
		t.Error("the process still runs")
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestPoolEndsAServerWithItsLastLease(t *testing.T) {
	k := firstStartable(t)
	p := &pool{entries: map[string]*entry{}}
	a, err := p.take(k)
	if err != nil {
		give(t, err)
	}
	b, err := p.take(k)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Error("two leases of one kind started two servers")
	}
	if err := p.put(k); err != nil {
		t.Fatal(err)
	}
	c := a.client(0)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the server ended before its last lease: %v", err)
	}
	if err := p.put(k); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("the server outlives its last lease")
	}
}
