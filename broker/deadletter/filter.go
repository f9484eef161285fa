package deadletter

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// Filter says which records are meant: those that fulfil all of it. The zero Filter means every record. An entry that is no
// dead letter has no reason, handler, group, source and age, so that a filter that asks for one leaves it out.
type Filter struct {
	// IDs are the records' own (see [Record.ID]); empty means any. In a stream they are read directly.
	IDs []string
	// Reason, Handler and Group are those of the burial, in full; "" means any.
	Reason, Handler, Group string
	// Source is the key that it was buried from, with or without the broker's prefix; "" means any.
	Source string
	// OlderThan and NewerThan bound how long ago it was buried, by the server's clock; 0 is no bound.
	OlderThan, NewerThan time.Duration
	// Text stands somewhere in the detail, the error, the payload or the message's id; "" means any.
	Text string
	// Foreign means the entries that are no dead letters, and only those.
	Foreign bool
	// Match is any other condition; nil means none. The record is the filter's own: one that is kept has to be cloned.
	Match func(*Record) bool
}

// problem is what is wrong with the filter, nil where nothing is.
func (f *Filter) problem() error {
	switch {
	case f.OlderThan < 0 || f.NewerThan < 0:
		return fmt.Errorf("the filter's age is negative (OlderThan %s, NewerThan %s); give how long ago", f.OlderThan, f.NewerThan)
	case f.NewerThan > 0 && f.OlderThan >= f.NewerThan:
		return fmt.Errorf("no record is older than %s and newer than %s; exchange the two", f.OlderThan, f.NewerThan)
	case f.Foreign && (f.Reason != "" || f.Handler != "" || f.Group != "" || f.Source != "" || f.OlderThan > 0 || f.NewerThan > 0):
		return fmt.Errorf("a foreign entry was never buried and has no reason, handler, group, source or age; leave them out, or Foreign")
	case slices.Contains(f.IDs, ""):
		return fmt.Errorf("an id of the filter is empty")
	}
	return nil
}

// condition is a filter that knows the time and the prefix.
type condition struct {
	Filter
	ids    map[string]bool
	source string
	text   []byte
	// now is when the pass began, by the server's clock.
	now time.Time
	// before and after bound the time of the burial; zero is no bound.
	before, after time.Time
}

func (f Filter) condition(ctx context.Context, q *Queue, letters broker.Letters) (*condition, error) {
	c := &condition{Filter: f, ids: make(map[string]bool, len(f.IDs)), source: q.broker.ResolveKey(f.Source), text: []byte(f.Text)}
	for _, id := range f.IDs {
		c.ids[id] = true
	}
	var err error
	if c.now, err = letters.Now(ctx); err != nil {
		return nil, err
	}
	if f.OlderThan > 0 {
		c.before = c.now.Add(-f.OlderThan)
	}
	if f.NewerThan > 0 {
		c.after = c.now.Add(-f.NewerThan)
	}
	return c, nil
}

// matches tells whether the filter lets a record through.
func (c *condition) matches(r *Record) bool {
	switch {
	case c.Foreign && !r.Foreign,
		c.Reason != "" && c.Reason != r.Reason,
		c.Handler != "" && c.Handler != r.Handler,
		c.Group != "" && c.Group != r.Group,
		c.Source != "" && c.Source != r.Source && c.source != r.Source,
		!c.before.IsZero() && (r.Foreign || !r.At.Before(c.before)),
		!c.after.IsZero() && (r.Foreign || !r.At.After(c.after)),
		len(c.ids) > 0 && !c.ids[r.ID],
		len(c.text) > 0 && !c.speaks(r):
		return false
	}
	return c.Match == nil || c.Match(r)
}

func (c *condition) speaks(r *Record) bool {
	return strings.Contains(r.Detail, c.Text) || strings.Contains(r.Error, c.Text) || strings.Contains(r.MessageID, c.Text) ||
		bytes.Contains(r.Body, c.text)
}
