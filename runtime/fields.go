package streamrt

import (
	"fmt"
	"reflect"
	"strings"
)

// Fields decodes the flat fields of a stream entry into T, a struct or a pointer to one. It is for streams that others
// write, and implies [Spec.Foreign].
//
// Each exported field of the struct takes the entry's field of its name. The name is that of the tag stream:"name", or
// the Go name, exactly or else in any case; stream:"-" leaves the field alone, and an embedded struct stands for its
// fields. A name belongs to one field. These types can be filled, and types made of them:
//
//   - string, []byte, and every type whose pointer is an [encoding.TextUnmarshaler]
//   - bool: true, false, 1 or 0
//   - the integers, in decimal, and the floats, finite, both within the range of the type
//   - time.Time: RFC 3339, or whole seconds or milliseconds since 1970 with stream:"name,unix" or stream:"name,unixms"
//   - time.Duration: Go's notation such as 1m30s, or whole seconds or milliseconds with stream:"name,s" or
//     stream:"name,ms"; a type made of it is an integer
//   - a pointer to one of these: it stays nil where the entry has no such field
//
// An entry is malformed where a field that is no pointer is missing, and where a value cannot be parsed or is out of
// range; the error names the field. Fields of the entry that the struct does not have are ignored, and of repeated names
// the last one counts. A type that cannot be filled is reported by [Subscription.Err].
func Fields[T any]() Codec[T] {
	t := reflect.TypeFor[T]()
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	plan, err := planFields(t)
	return Codec[T]{name: codecFields, err: err, decode: func(in *Incoming, _ PayloadCodec, v *T) error {
		if err != nil {
			return err
		}
		to := reflect.ValueOf(v).Elem()
		if pointer {
			to.Set(reflect.New(t))
			to = to.Elem()
		}
		return plan.fill(to, in.Message.Fields)
	}}
}

// fieldsPlan is what a struct takes from an entry. It is made once, when the subscription is bound; a message follows it
// without a look at names, tags or kinds of the type.
type fieldsPlan struct {
	steps []fieldStep
	// names has the names of all steps: what one of them has exactly is no other's in another case.
	names map[string]bool
}

// fieldStep fills one field of the struct.
type fieldStep struct {
	name string
	// anyCase is set where the name is Go's and not a tag's.
	anyCase bool
	// index leads to the field through embedded structs.
	index []int
	parse valueParser
	// optional is the type behind the pointer, nil where the field is none and has to be there.
	optional reflect.Type
}

func (p *fieldsPlan) fill(to reflect.Value, fields []Field) error {
	for i := range p.steps {
		step := &p.steps[i]
		value, ok := p.find(step, fields)
		if !ok {
			if step.optional != nil {
				continue
			}
			return fmt.Errorf("fields: the entry has no field %s: where it may be missing, its Go field is a pointer", step.name)
		}
		field := to.FieldByIndex(step.index)
		if step.optional != nil {
			field.Set(reflect.New(step.optional))
			field = field.Elem()
		}
		if err := step.parse(field, value); err != nil {
			return fmt.Errorf("fields: field %s: %w", step.name, err)
		}
	}
	return nil
}

// find returns the last value of the step's name. Entries are short, and their names mostly differ in length, so that
// looking through them costs less than a map of each would.
func (p *fieldsPlan) find(step *fieldStep, fields []Field) (string, bool) {
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].Name == step.name {
			return fields[i].Value, true
		}
	}
	if step.anyCase {
		for i := len(fields) - 1; i >= 0; i-- {
			if strings.EqualFold(fields[i].Name, step.name) && !p.names[fields[i].Name] {
				return fields[i].Value, true
			}
		}
	}
	return "", false
}
