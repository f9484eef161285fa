package redisbroker

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// flight is one in-flight list of this process: what is taken is moved there, and is there until it is settled. Its name
// in the registry of the owners is its member. There is one at a time that new items go to. It is left for a new one when
// the liveness key was gone: a peer may have put back what it held, so that an equal item that is taken later has to be
// told apart from the one that was.
type flight struct {
	member string
	list   string
	// aside keeps items that wait for their turn, and are not charged where the process dies.
	aside string
	// gaps is how often the liveness key had been gone before.
	gaps int
	// left is when another one took its place, zero for the one that new items go to. The subscription guards it.
	left time.Time
}

// The auxiliary keys of a reliable list, each of which hashes to the list's own slot.
const (
	ownersKind   = ":owners"
	inflightKind = ":inflight::"
	asideKind    = ":aside::"
	settledKind  = ":settled::"
)

func newFlight(base, consumer, token string, gaps int) *flight {
	member := consumer + ":" + token
	if gaps > 0 {
		member += ":" + strconv.Itoa(gaps+1)
	}
	return &flight{member: member, list: base + inflightKind + member, aside: base + asideKind + member, gaps: gaps}
}

// inflight knows what this process has in its in-flight lists. Safe for concurrent use.
type inflight struct {
	mu   sync.Mutex // guards what follows and every flown; not held over I/O
	all  map[string]*flown
	next uint64
}

// flown is one item in hand.
type flown struct {
	id   string
	item []byte
	in   *flight
	// age orders the items by when they were taken.
	age uint64
	// touched counts the settlements that began. A look at the server that one of them overlaps says nothing about the item.
	touched  uint64
	settling bool
	aside    bool
	// lost: it was taken back by a peer.
	lost bool
}

func newInflight() *inflight { return &inflight{all: make(map[string]*flown)} }

func (f *inflight) add(deliveries []*broker.Delivery, in *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range deliveries {
		f.next++
		f.all[d.ID] = &flown{id: d.ID, item: d.Raw, in: in, age: f.next}
	}
}

// begin notes that the item is being settled. It returns nil for one that is not in hand (any more).
func (f *inflight) begin(id string) *flown {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.all[id]
	if x != nil {
		x.settling = true
		x.touched++
	}
	return x
}

// end notes how a settlement ended: the item is out of hand, or still there, aside or not.
func (f *inflight) end(x *flown, out, aside bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.settling, x.aside = false, aside
	if out {
		delete(f.all, x.id)
	}
}

// forget drops an item that is not ours.
func (f *inflight) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, id)
}

// isLost tells whether the item was found to be taken back.
func (f *inflight) isLost(x *flown) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return x.lost
}

// listed is how many items the in-flight list should hold, and aside how many the one beside it.
func (f *inflight) listed(in *flight) (listed, aside int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		switch {
		case x.in != in || x.lost:
		case x.aside:
			aside++
		default:
			listed++
		}
	}
	return listed, aside
}

// standsAside returns how many of each item may stand beside the in-flight list.
func (f *inflight) standsAside(in *flight) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := make(map[string]int)
	for _, x := range f.all {
		if x.in == in && !x.lost && (x.aside || x.settling) {
			known[string(x.item)]++
		}
	}
	return known
}

// look compares what is in hand with what the server has. It returns the items that it has and this process does not know
// of, which is true only where nothing is being taken meanwhile, and the ids of those that it does not have any more. These
// are lost from then on. Equal items cannot be told apart: of those the newest count as the ones that are left, for
// what comes into the list after a peer has put things back is new.
func (f *inflight) look(ctx context.Context, client redis.UniversalClient, in *flight) (unseen [][]byte, missing []string, err error) {
	known, sure := f.snapshot(in)
	there, err := client.LRange(ctx, in.list, 0, -1).Result()
	if err != nil {
		return nil, nil, err
	}
	left := make(map[string]int, len(there))
	for _, item := range there {
		left[item]++
	}
	// The oldest first, as they were taken.
	for _, item := range slices.Backward(there) {
		if known[item] > 0 {
			known[item]--
		} else {
			unseen = append(unseen, []byte(item))
		}
	}
	return unseen, f.missing(sure, left), nil
}

// sighting is an item at the moment of a look.
type sighting struct {
	x       *flown
	touched uint64
}

// snapshot returns how many of each item this process has in hand, and those that are listed for sure, the newest first.
func (f *inflight) snapshot(in *flight) (known map[string]int, sure []sighting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known = make(map[string]int)
	for _, x := range f.all {
		if x.in != in || x.lost {
			continue
		}
		known[string(x.item)]++
		if !x.settling && !x.aside {
			sure = append(sure, sighting{x, x.touched})
		}
	}
	slices.SortFunc(sure, func(a, b sighting) int { return int(b.x.age) - int(a.x.age) }) //nolint:gosec // far from overflow
	return known, sure
}

// missing marks those as lost of which the server has none left.
func (f *inflight) missing(sure []sighting, left map[string]int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, s := range sure {
		item := string(s.x.item)
		switch {
		case s.touched != s.x.touched:
		case left[item] > 0:
			left[item]--
		default:
			s.x.lost = true
			ids = append(ids, s.x.id)
		}
	}
	return ids
}
