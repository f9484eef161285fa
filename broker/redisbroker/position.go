package redisbroker

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
)

// position is how far the group has come, as far as this process knows. Safe for concurrent use.
type position struct {
	mu   sync.Mutex
	last string
	n    int64
}

// gave notes that the server gave this process n new entries, the last of them with this id.
func (p *position) gave(last string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += int64(n)
	p.advance(last)
}

// reached notes the position that the server itself told.
func (p *position) reached(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(id)
}

func (p *position) advance(id string) {
	if p.last == "" || compareIDs(p.last, id) < 0 {
		p.last = id
	}
}

// forget begins anew, for another stream under the same key.
func (p *position) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.n = "", 0
}

// get returns the last id, "" for none, and how many new entries this process was given.
func (p *position) get() (last string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.n
}

// compareIDs orders two entry ids (ms-seq) as the stream does.
func compareIDs(a, b string) int {
	aMS, aSeq := splitID(a)
	bMS, bSeq := splitID(b)
	return cmp.Or(cmp.Compare(aMS, bMS), cmp.Compare(aSeq, bSeq))
}

func splitID(id string) (ms, seq uint64) {
	head, tail, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(head, 10, 64)
	seq, _ = strconv.ParseUint(tail, 10, 64)
	return ms, seq
}
