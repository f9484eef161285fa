package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// envelopeMark is what a message with headers begins with on a list, written out as other programs would.
const envelopeMark = "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31"

// listItem takes an item of a list apart: a bare body, or the mark and a CBOR array of version, headers and body. It is
// returned as the entry of a stream that says the same.
func listItem(item string) (entry, error) {
	wrapped, ok := strings.CutPrefix(item, envelopeMark)
	if !ok {
		return entry{fields: []pair{{fieldPayload, item}}}, nil
	}
	var array struct {
		_       struct{} `cbor:",toarray"`
		Version int
		Headers [][2][]byte
		Body    []byte
	}
	if err := cbor.NewDecoder(bytes.NewReader([]byte(wrapped))).Decode(&array); err != nil {
		return entry{}, fmt.Errorf("the item %.60q: %w", item, err)
	}
	e := entry{fields: []pair{{fieldPayload, string(array.Body)}}}
	for _, h := range array.Headers {
		name := string(h[0])
		if !strings.HasPrefix(name, burialPrefix) {
			name = headerPrefix + name
		}
		e.fields = append(e.fields, pair{name, string(h[1])})
	}
	return e, nil
}

// listItems returns a whole list, what is taken next first.
func listItems(t testing.TB, target Target, key string) []entry {
	t.Helper()
	items, err := target.Client.LRange(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []entry
	for i := range items {
		e, err := listItem(items[len(items)-1-i])
		if err != nil {
			t.Fatalf("list %s: %v", key, err)
		}
		all = append(all, e)
	}
	return all
}

// The keys beside a reliable list, written out as other programs would see them.
func ownersOf(list string) string { return "{" + list + "}:owners" }

func inFlightOf(list, owner string) string { return "{" + list + "}:inflight::" + owner }

func asideOf(list, owner string) string { return "{" + list + "}:aside::" + owner }

func deferredOf(list string) string { return "{" + list + "}:deferred" }

// inFlight is how many items of a list are in hand, as the server sees it.
func inFlight(ctx context.Context, target Target, list string) (n int64, err error) {
	owners, err := target.Client.SMembers(ctx, ownersOf(list)).Result()
	if err != nil {
		return 0, err
	}
	for _, owner := range owners {
		for _, key := range []string{inFlightOf(list, owner), asideOf(list, owner)} {
			held, err := target.Client.LLen(ctx, key).Result()
			if err != nil {
				return 0, err
			}
			n += held
		}
	}
	return n, nil
}

// awaitListRest waits until nothing of a list can ever be delivered again: nothing waits, is in hand or delayed on the server.
func awaitListRest(t testing.TB, target Target, list, delaySet string) {
	t.Helper()
	await(t, "list "+list+" comes to rest", func(ctx context.Context) bool {
		// In the order in which a message may go: what has left the first place is seen in a later one, or a second time.
		for range 2 {
			held, err := inFlight(ctx, target, list)
			if err != nil || held > 0 {
				return false
			}
			for _, set := range []string{delaySet, deferredOf(list)} {
				if n, err := target.Client.ZCard(ctx, set).Result(); err != nil || n > 0 {
					return false
				}
			}
			if n, err := target.Client.LLen(ctx, list).Result(); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}
