package redisbroker

import (
	"slices"
	"strings"

	"github.com/millrace-go/millrace/broker"
)

const (
	// fieldPayload holds the body of a stream entry; each header is a field of its own.
	fieldPayload = "_payload"
	headerPrefix = "h:"
	burialPrefix = "dlq_"
)

// delivery takes the fields of an entry apart. It cannot fail: an entry without a payload has none, and what that means
// is the codec's.
func delivery(id string, count int64, fields []broker.Field) *broker.Delivery {
	d := new(broker.Delivery)
	fill(d, id, count, fields)
	return d
}

func fill(d *broker.Delivery, id string, count int64, fields []broker.Field) {
	d.ID, d.Count, d.Fields = id, count, fields
	for _, f := range fields {
		takeField(d, f, len(fields))
	}
}

// takeField takes one of n fields.
func takeField(d *broker.Delivery, f broker.Field, n int) {
	switch {
	case string(f.Name) == fieldPayload:
		d.Body, d.HasBody = f.Value, true
	case len(f.Name) > len(headerPrefix) && string(f.Name[:len(headerPrefix)]) == headerPrefix:
		if d.Headers == nil {
			d.Headers = make([]broker.HeaderLine, 0, (n+1)/2)
		}
		d.Headers = append(d.Headers, broker.HeaderLine{Name: headerName(f.Name[len(headerPrefix):]), Value: string(f.Value)})
	case len(f.Name) > len(burialPrefix) && string(f.Name[:len(burialPrefix)]) == burialPrefix:
		setBurial(d, f)
	}
}

// setBurial takes one dlq_* field. Only an entry that carries dlq_reason is a dead letter: a foreign field that happens
// to begin alike makes none.
func setBurial(d *broker.Delivery, f broker.Field) {
	name := string(f.Name)
	if d.Burial == nil {
		if name != broker.FieldReason {
			return
		}
		d.Burial = new(broker.Burial)
	} else if name == broker.FieldReason {
		// Each burial appends a whole set that begins with the reason; the last one counts.
		*d.Burial = broker.Burial{}
	}
	d.Burial.Set(name, string(f.Value))
}

// headerName spares the allocation for the names that most messages carry.
func headerName(name []byte) string {
	switch string(name) {
	case broker.HeaderMessageID:
		return broker.HeaderMessageID
	case broker.HeaderRetryCount:
		return broker.HeaderRetryCount
	case broker.HeaderRetryGroup:
		return broker.HeaderRetryGroup
	case broker.HeaderHistory:
		return broker.HeaderHistory
	case broker.HeaderContentType:
		return broker.HeaderContentType
	case broker.HeaderTask:
		return broker.HeaderTask
	case broker.HeaderTraceParent:
		return broker.HeaderTraceParent
	}
	return string(name)
}

// edited returns the fields of a copy of the entry: those that the edits name are left out and set, everything else
// stands as it stood, repeated names and order kept. A message that has no id gets the entry's. There is room for so many more.
func edited(d *broker.Delivery, edits broker.Edits, room int) []broker.Field {
	fields := editFields(d.Fields, edits, 1+room)
	if id, ok := d.Header(broker.HeaderMessageID); (!ok || id == "") && !slices.ContainsFunc(edits.Set, isMessageID) {
		fields = appendLines(fields, headerPrefix, broker.HeaderLine{Name: broker.HeaderMessageID, Value: d.ID})
	}
	return fields
}

// editFields returns the fields with those headers left out and set that the edits name, and room for so many more.
func editFields(fields []broker.Field, edits broker.Edits, room int) []broker.Field {
	edited := make([]broker.Field, 0, len(fields)+len(edits.Set)+room)
	for _, f := range fields {
		if name, ok := strings.CutPrefix(string(f.Name), headerPrefix); ok && touches(edits, name) {
			continue
		}
		edited = append(edited, f)
	}
	return appendLines(edited, headerPrefix, edits.Set...)
}

// appendLines appends a field for each line, its name behind the prefix. They share one buffer: two allocations for each
// line are what a failed message would cost most.
func appendLines(fields []broker.Field, prefix string, lines ...broker.HeaderLine) []broker.Field {
	size := 0
	for _, h := range lines {
		size += len(prefix) + len(h.Name) + len(h.Value)
	}
	data := make([]byte, 0, size)
	for _, h := range lines {
		begin := len(data)
		data = append(append(data, prefix...), h.Name...)
		end := len(data)
		data = append(data, h.Value...)
		fields = append(fields, broker.Field{Name: data[begin:end:end], Value: data[end:len(data):len(data)]})
	}
	return fields
}

func isMessageID(h broker.HeaderLine) bool { return h.Name == broker.HeaderMessageID }

func field(name, value string) broker.Field {
	return broker.Field{Name: []byte(name), Value: []byte(value)}
}

func touches(edits broker.Edits, name string) bool {
	return slices.Contains(edits.Remove, name) ||
		slices.ContainsFunc(edits.Set, func(h broker.HeaderLine) bool { return h.Name == name })
}
