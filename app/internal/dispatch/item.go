package dispatch

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// item is a delivery on its way through the engine, with everything that it needs there. It belongs to one goroutine at a
// time: reader, worker, settler. Most are used again for another delivery.
type item struct {
	delivery *broker.Delivery
	// route is whose message it is, nil until somebody has looked; unknown: it is nobody's here. Where several routes share
	// the slots, entered tells that it has one of its route's, forRoute that it waits for one. Both are guarded by the
	// route's queue while it waits.
	route             *route
	unknown           bool
	entered, forRoute bool
	holding           holding
	// incoming is what the handler gets, and may keep.
	incoming *streamrt.Incoming
	counters counters
	call     Handler

	// span is nil where nobody takes it.
	span trace.Span

	settlement broker.Settlement
	// label is how the run ended; ran is false where the handler was not called.
	label label
	ran   bool
	// suspect: it is counted among the suspects that run; lastRun: one more loss is one too many. place is where it is while
	// it waits for its turn. All three are guarded by suspects.
	suspect, lastRun bool
	place            place
	// discard is why the message is gone when the settlement is done.
	discard string
	// text is the error, for the log.
	text string
	// parked: when the settlement is done the message waits until due. It counts as parked from the decision on.
	parked bool
	due    time.Time
	// copy are the edits of the copy that an entry gets that is kept for now.
	copy broker.Edits
	// kept is the delivery count that the entry was to be kept with.
	kept int64
	// body is the delivery where a parked entry has to be copied from what is in hand.
	body *broker.Delivery
	// unparking: this is the settlement that ends the wait.
	unparking bool
	// taken is closed when the server has noted that a parked entry runs again; nil for everything else.
	taken chan struct{}

	// tries counts the settlements that failed.
	tries int
	// fence is the newest delivery count that the server is known to have given the entry while it was in hand. It is
	// guarded by hands, as is parted: the entry is known to be somebody else's; and next: what was handed out since, and
	// waits for the end of this run.
	fence  int64
	parted bool
	next   *item
}

var items = sync.Pool{New: func() any { return new(item) }}

// newItem returns an item for what was read.
func newItem(d *broker.Delivery) *item {
	it, _ := items.Get().(*item)
	it.delivery = d
	return it
}

// recycle takes back an item that has come to its end. Only the straight way is sure to have left nobody who would still look
// at it: acknowledged, by a route alone, on a source that hands nothing out twice, with nothing lost before.
func (e *Engine) recycle(it *item) {
	if it.settlement.Action != broker.Ack || it.counters.losses > 0 || it.parked || it.unparking || it.taken != nil ||
		e.hands != nil || e.byTask != nil {
		return
	}
	*it = item{}
	items.Put(it)
}

// isLast reports whether the settlement, once carried out, is the last of the message, and not just of one of its entries or
// of a copy that was meant for others.
func (it *item) isLast() bool {
	switch it.settlement.Action {
	case broker.Bury:
		return true
	case broker.Ack:
		return it.label != labelNone || it.discard != ""
	}
	return false
}

// apply makes the intent the item's settlement.
func (it *item) apply(i intent, now time.Time) {
	it.settlement = broker.Settlement{
		Delivery: it.delivery,
		Action:   i.action,
		Edits:    i.edits,
		Delay:    i.delay,
		Limit:    i.limit,
		Burial:   i.burial,
		Count:    i.count,
	}
	if i.action == broker.Bury {
		it.settlement.Target = it.route.DeadLetter
	}
	it.discard = i.discard
	it.copy, it.kept = i.copy, i.count
	if i.parked {
		it.parked, it.due = true, now.Add(i.park)
	}
}
