package dispatch

import "testing"

func TestRoomForWhatIsNew(t *testing.T) {
	for _, c := range []struct {
		name                     string
		running, settling, aside int64
		troubled                 bool
		want                     int
	}{
		{name: "nothing in hand", want: maxWaiting},
		{name: "as many as fit are in hand", running: 1100},
		{name: "outcomes that are on their way keep nothing out that has a place", running: 500, settling: 600, want: 600},
		{name: "the server does not keep up with the outcomes", running: 100, settling: 2128},
		{name: "it takes none", settling: 200, troubled: true, want: 28},
		{name: "a few suspects wait", aside: 199, want: maxWaiting},
		{name: "many suspects wait", aside: 200},
	} {
		r := newRoom(100, 1000, 10_000, true)
		r.running.Store(c.running)
		r.settling.Store(c.settling)
		r.aside.Store(c.aside)
		r.troubled.Store(c.troubled)
		if got := r.free().New; got != c.want {
			t.Errorf("%s: room for %d, want %d", c.name, got, c.want)
		}
	}
}
