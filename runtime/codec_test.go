package streamrt_test

import (
	"bytes"
	"context"
	"encoding"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	streamrt "github.com/millrace-go/millrace/runtime"
)

// decode binds the codec as generated code does and returns what a handler would get.
func decode[T any](codec func() streamrt.Codec[T], in *streamrt.Incoming, fallback streamrt.PayloadCodec) (T, error) {
	var got T
	s := streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "s"}, codec, func(_ context.Context, v T) error {
		got = v
		return nil
	})
	call, err := s.Prepare(in, fallback)
	if err != nil {
		return got, err
	}
	call(context.Background())
	return got, nil
}

type order struct {
	ID    int               `json:"id"`
	Name  string            `json:"name,omitempty"`
	At    time.Time         `json:"at"`
	Total *big.Float        `json:"total,omitempty"`
	Lines []line            `json:"lines"`
	Notes map[string]string `json:"notes"`
	Any   any               `json:"any"`
	Bytes []byte            `json:"bytes"`
}

type line struct {
	SKU   string  `json:"sku"`
	Price float64 `json:"price"`
}

func TestCBORReadsWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := order{
			ID:   rapid.Int().Draw(t, "id"),
			Name: rapid.String().Draw(t, "name"),
			At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).
				UTC(),
			Lines: rapid.SliceOf(rapid.Custom(func(t *rapid.T) line {
				return line{rapid.String().Draw(t, "sku"), rapid.Float64().Draw(t, "price")}
			})).Draw(t, "lines"),
			Notes: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "notes"),
			Any:   map[string]any{"nested": map[string]any{"text": rapid.String().Draw(t, "nested")}},
			Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"),
		}
		body, err := streamrt.CBORCodec{}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(streamrt.CBOR[*order], incoming(string(body)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("\n got %+v\nwant %+v", *got, want)
		}
	})
}

func TestCBORKeepsValuesThatOnlyHaveText(t *testing.T) {
	body, err := streamrt.CBORCodec{}.Marshal(order{Total: big.NewFloat(1.5)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(streamrt.CBOR[order], incoming(string(body)), nil)
	if err != nil || got.Total == nil || got.Total.String() != "1.5" {
		t.Errorf("got %v, %v", got.Total, err)
	}
}

func TestCBORRefusesWhatItIsStrictAbout(t *testing.T) {
	deep := strings.Repeat("\x81", 300) + "\x01"
	for name, body := range map[string]string{
		"a key twice, in a struct":       "\xa2\x62id\x01\x62id\x02",
		"a key twice, in a map":          "\xa1\x65notes\xa2\x61a\x61b\x61a\x61c",
		"bytes behind the value":         "\xa0\x00",
		"a value cut off":                "\xa1\x62id",
		"nothing":                        "",
		"text that is not UTF-8":         "\xa1\x64name\x61\xff",
		"more levels than allowed":       "\xa1\x63any" + deep,
		"more elements than allowed":     "\xa1\x63any\x9a\x00\x10\x00\x01" + strings.Repeat("\x00", 1<<20+1),
		"an array that claims too much":  "\xa1\x65lines\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
		"a map that claims too much":     "\xa1\x65notes\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
		"bytes as a key in an interface": "\xa1\x63any\xa1\x41a\x01",
		"a list as a key":                "\xa1\x63any\xa1\x81\x01\x01",
		"another type":                   "\x01",
	} {
		got, err := decode(streamrt.CBOR[order], incoming(body), nil)
		if err == nil {
			t.Errorf("%s: decoded to %+v", name, got)
		} else if !strings.HasPrefix(err.Error(), "cbor: ") {
			t.Errorf("%s: %v does not name the codec", name, err)
		}
	}
	if _, err := decode(streamrt.CBOR[order], incoming("\xa1\x63any"+strings.Repeat("\x81", 200)+"\x01"), nil); err != nil {
		t.Errorf("200 levels: %v", err)
	}
}

type orderPointer *order

// A handler that takes a pointer never sees nil, whatever the body says.
func TestANullBodyIsMalformedForAPointer(t *testing.T) {
	for _, c := range []struct {
		name     string
		body     string
		fallback streamrt.PayloadCodec
	}{
		{"null", "null", nil},
		{"null between blanks", " \n\tnull\r ", nil},
		{"CBOR null", "\xf6", streamrt.CBORCodec{}},
		{"CBOR undefined", "\xf7", streamrt.CBORCodec{}},
	} {
		if got, err := decode(streamrt.Default[*order], incoming(c.body), c.fallback); err == nil || !strings.Contains(err.Error(), "null") {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
		if got, err := decode(streamrt.Default[orderPointer], incoming(c.body), c.fallback); err == nil {
			t.Errorf("%s, named: got %v", c.name, got)
		}
		if _, err := decode(streamrt.Default[order], incoming(c.body), c.fallback); err != nil {
			t.Errorf("%s as a value: %v", c.name, err)
		}
	}
	if got, err := decode(streamrt.JSON[orderPointer], incoming(`{"id":4}`), nil); err != nil || got == nil || got.ID != 4 {
		t.Errorf("a named pointer: %v, %v", got, err)
	}
}

// price has methods of its own, as the messages of protocol buffers do.
type price struct{ cents byte }

func (p *price) MarshalBinary() ([]byte, error) { return []byte{p.cents}, nil }

func (p *price) UnmarshalBinary(data []byte) error {
	if len(data) != 1 {
		return fmt.Errorf("%d bytes are no price", len(data))
	}
	p.cents = data[0]
	return nil
}

// binaryCodec is for types that encode themselves.
type binaryCodec struct{}

func (binaryCodec) Name() string { return "binary" }

func (binaryCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("%T does not encode itself", v)
	}
	return m.MarshalBinary()
}

func (binaryCodec) Unmarshal(data []byte, v any) error {
	u, ok := v.(encoding.BinaryUnmarshaler)
	if !ok {
		return fmt.Errorf("%T does not decode itself", v)
	}
	return u.UnmarshalBinary(data)
}

func TestOnesOwnCodecGetsThePointerOfThePayload(t *testing.T) {
	got, err := decode(streamrt.Default[*price], incoming("\x07"), binaryCodec{})
	if err != nil || got == nil || got.cents != 7 {
		t.Errorf("a pointer payload: %v, %v", got, err)
	}
	value, err := decode(streamrt.Default[price], incoming("\x08"), binaryCodec{})
	if err != nil || value.cents != 8 {
		t.Errorf("a value payload: %v, %v", value, err)
	}
	if _, err := decode(streamrt.Default[*price], incoming("long"), binaryCodec{}); err == nil || err.Error() != "binary: 4 bytes are no price" {
		t.Errorf("a bad body: %v", err)
	}
	if got, err := decode(streamrt.JSON[order], incoming(`{"id":3}`), binaryCodec{}); err != nil || got.ID != 3 {
		t.Errorf("the directive's codec does not win: %v, %v", got, err)
	}
}

func TestAnEntryWithoutAPayload(t *testing.T) {
	in := &streamrt.Incoming{Message: streamrt.Message{Fields: []streamrt.Field{{Name: "id", Value: "4"}}}}
	for name, err := range map[string]error{
		"json":    second(decode(streamrt.JSON[order], in, nil)),
		"cbor":    second(decode(streamrt.CBOR[order], in, nil)),
		"default": second(decode(streamrt.Default[order], in, binaryCodec{})),
	} {
		if err == nil || !strings.Contains(err.Error(), "no _payload field") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := decode(streamrt.Raw[[]byte], in, nil); err != nil || len(got) != 0 {
		t.Errorf("raw: %q, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestWhoReadsTheFieldsOfAnEntry(t *testing.T) {
	bare, full := new(streamrt.Incoming), incoming("body")
	spec := streamrt.Spec{Name: "t", Stream: "s"}
	fields := streamrt.SubscribeErr(spec, streamrt.Fields, func(context.Context, click) error { return nil })
	raw := streamrt.SubscribeErr(spec, streamrt.Raw, func(context.Context, []byte) error { return nil })
	other := streamrt.SubscribeErr(spec, streamrt.CBOR, func(context.Context, click) error { return nil })
	for _, c := range []struct {
		name         string
		subscription streamrt.Subscription
		bare, full   bool
	}{{"fields", fields, true, true}, {"raw", raw, true, false}, {"cbor", other, false, false}} {
		if c.subscription.ReadsFields(bare) != c.bare || c.subscription.ReadsFields(full) != c.full {
			t.Errorf("%s: without a body %v, with one %v", c.name, c.subscription.ReadsFields(bare), c.subscription.ReadsFields(full))
		}
	}
	if !fields.Spec().Foreign || raw.Spec().Foreign || other.Spec().Foreign {
		t.Error("codec=fields implies foreign, and nothing else does")
	}
	if fields.Err() != nil || fields.Codec() != "fields" || other.Codec() != "cbor" {
		t.Errorf("%v %s %s", fields.Err(), fields.Codec(), other.Codec())
	}
}

// A CBOR body is read again by the codec that wrote it, and by no other.
func TestCodecsDoNotReadEachOther(t *testing.T) {
	body, err := streamrt.CBORCodec{}.Marshal(order{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(streamrt.JSON[order], incoming(string(body)), nil); err == nil {
		t.Error("JSON read CBOR")
	}
	if !bytes.Contains(body, []byte("id")) {
		t.Errorf("%x does not use the json tags", body)
	}
	if _, err := (streamrt.CBORCodec{}).Marshal(make(chan int)); err == nil {
		t.Error("CBOR encoded a channel")
	}
}
