package deadletter

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// Decode reads a dead letter that one's own client has read from a stream: pass it the entry's fields as the client gives
// them, a map of strings, of []byte, or of any that hold either, such as go-redis's XMessage.Values. The record has no ID:
// that is the client's to know. An entry that is no dead letter is no error: it is [Record.Foreign]. A value of another
// type is one.
//
// A map has lost the order of the fields and all but one of those with the same name. Of a message that died twice it has
// the last burial, which is the one that counts.
func Decode[V any](fields map[string]V) (Record, error) {
	ordered := make([]broker.Field, 0, len(fields))
	add := func(name string) error {
		f := broker.Field{Name: []byte(name)}
		switch v := any(fields[name]).(type) {
		case string:
			f.Value = []byte(v)
		case []byte:
			f.Value = slices.Clone(v)
		default:
			return fmt.Errorf("deadletter.Decode: the field %q is a %T; pass the entry's fields as strings or bytes", name, v)
		}
		ordered = append(ordered, f)
		return nil
	}
	// A burial begins with its reason.
	if _, ok := fields[broker.FieldReason]; ok {
		if err := add(broker.FieldReason); err != nil {
			return Record{}, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == broker.FieldReason {
			continue
		}
		if err := add(name); err != nil {
			return Record{}, err
		}
	}
	return *newRecord(redisbroker.Letter("", ordered)), nil
}

// DecodeItem reads a dead letter that one's own client has taken from a list, or received on a channel. An item that is no
// dead letter is [Record.Foreign], whatever it is.
func DecodeItem(item []byte) Record {
	record := newRecord(redisbroker.ListLetter(slices.Clone(item)))
	record.ID = ""
	return *record
}
