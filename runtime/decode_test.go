package streamrt_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	streamrt "github.com/millrace-go/millrace/runtime"
)

// decoders are the ways from foreign bytes into a payload. Each must answer whatever it is given: a value or an error.
var decoders = map[string]func(*streamrt.Incoming) error{
	"json":                   decoder(streamrt.JSON[*order]),
	"cbor":                   decoder(streamrt.CBOR[*order]),
	"cbor into an interface": decoder(streamrt.CBOR[any]),
	"fields":                 decoder(streamrt.Fields[*everything]),
}

func decoder[T any](codec func() streamrt.Codec[T]) func(*streamrt.Incoming) error {
	s := streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "s"}, codec, func(context.Context, T) error { return nil })
	return func(in *streamrt.Incoming) error {
		if s.ReadsFields(in) {
			in.Message.Fields = fieldsOf(in.Body)
		}
		return second(s.Prepare(in, nil))
	}
}

// fieldNames are those that the payload reads; the random bytes choose among them, so that most values reach a parser.
var fieldNames = []string{
	"Hits", "Misses", "Host", "String", "Text", "Bytes", "Blob", "Bool", "Flag", "Int", "Small", "Int16", "Int32", "Int64",
	"Uint", "Uint8", "Uint32", "Uint64", "Float32", "Float64", "Time", "stamp", "unix", "UnixMS", "Duration", "sec", "ms", "Big", "BigP",
}

// plainValues make an entry that decodes; what the random bytes say replaces some of them.
var plainValues = entry(
	"Hits", "1", "Host", "::1", "String", "", "Text", "", "Bytes", "", "Blob", "", "Bool", "0", "Flag", "1", "Int", "0",
	"Small", "0", "Int16", "0", "Int32", "0", "Int64", "0", "Uint", "0", "Uint8", "0", "Uint32", "0", "Uint64", "0",
	"Float32", "0", "Float64", "0", "Time", "2026-02-03T04:05:06Z", "stamp", "0", "unix", "0", "UnixMS", "0", "Duration", "0",
	"sec", "0", "Big", "0",
).Message.Fields

// fieldsOf reads an entry out of any bytes: each field is a byte for its name, one for its length, and its value.
func fieldsOf(data []byte) []streamrt.Field {
	fields := plainValues[:len(plainValues):len(plainValues)]
	for len(data) >= 2 {
		name, n := string(data[:1]), min(int(data[1])%24, len(data)-2)
		if i := int(data[0]); i < len(fieldNames)*8 {
			name = fieldNames[i%len(fieldNames)]
		}
		fields = append(fields, streamrt.Field{Name: name, Value: string(data[2 : 2+n])})
		data = data[2+n:]
	}
	return fields
}

// wellFormed is where random bytes are made from: pieces that get far into a decoder before something is wrong.
var wellFormed = []string{
	`{"id":1,"name":"a","at":"2026-02-03T04:05:06Z","total":"1.5","lines":[{"sku":"x","price":1e3}],"notes":{"a":"b"},"any":[null,true],"bytes":"AA=="}`,
	"\xa3\x62id\x01\x62at\x742026-02-03T04:05:06Z\x65lines\x81\xa1\x63skuax",
	"\xa2\x63any\xbf\x61a\x9f\x01\x02\xff\xff\x65total\x631.5",
	"\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00\xd8\x1e\x82\x01\x02",
	"\x00\x0565536\x02\x0610.0.0\x14\x142026-02-03T04:05:06\x18\x05h1m30\x09\x04-128\x17\x0917000000x0",
}

// randomBytes are any bytes, digits and signs, or a well-formed body with some bytes changed, cut out and doubled.
func randomBytes(r *rand.Rand, buf []byte) []byte {
	switch r.IntN(3) {
	case 0:
		buf = buf[:r.IntN(64)]
		for i := 0; i < len(buf); i += 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], r.Uint64())
			copy(buf[i:], word[:])
		}
	case 1:
		const letters = "0123456789+-.eExX:TZhmsµ_ truefalsenul{}[]\",\\"
		buf = buf[:r.IntN(64)]
		for i := range buf {
			buf[i] = letters[r.IntN(len(letters))]
		}
	default:
		buf = append(buf[:0], wellFormed[r.IntN(len(wellFormed))]...)
		for range 1 + r.IntN(4) {
			from := r.IntN(len(buf) + 1)
			to := from + r.IntN(min(8, len(buf)-from)+1)
			switch r.IntN(3) {
			case 0:
				buf = append(buf[:from], buf[to:]...)
			case 1:
				buf = append(buf[:to:len(buf)], buf[from:]...)
			default:
				for i := from; i < to; i++ {
					buf[i] = byte(r.Uint32())
				}
			}
			if len(buf) == 0 {
				break
			}
		}
	}
	return buf
}

// TestDecodersAnswerAnyBytes gives each decoder random bodies: 100,000, or as many as MILLRACE_DECODES says.
func TestDecodersAnswerAnyBytes(t *testing.T) {
	n := 100_000
	if s := os.Getenv("MILLRACE_DECODES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("MILLRACE_DECODES=%s: %v", s, err)
		}
	}
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			buf := make([]byte, 0, 512)
			decoded := 0
			var body []byte
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%q (seed %d): panic: %v", body, seed, p)
				}
			}()
			for range n {
				body = randomBytes(r, buf)
				if answered(t, decode, body) {
					decoded++
				}
			}
			if decoded == 0 || decoded == n {
				t.Errorf("%d of %d bodies decoded: the test reaches one side only", decoded, n)
			}
			t.Logf("%d of %d bodies decoded", decoded, n)
		})
	}
}

// answered reports whether the body was decoded; what was not has an error with words in it that fit into a log line.
func answered(t *testing.T, decode func(*streamrt.Incoming) error, body []byte) bool {
	err := decode(&streamrt.Incoming{Body: body, HasBody: true})
	if err != nil {
		if text := err.Error(); strings.TrimSpace(text) == "" || len(text) > 4096 {
			t.Errorf("%q: the error is %q", body, text)
		}
	}
	return err == nil
}

func FuzzJSON(f *testing.F) { fuzz(f, "json") }

func FuzzCBOR(f *testing.F) { fuzz(f, "cbor", "cbor into an interface") }

func FuzzFields(f *testing.F) { fuzz(f, "fields") }

func fuzz(f *testing.F, names ...string) {
	for _, seed := range append(wellFormed, "", "null", "\xf6", "\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", strings.Repeat("[", 20_000), strings.Repeat("\x81", 300)) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range names {
			answered(t, decoders[name], body)
		}
	})
}

// FuzzFieldValue gives one value to every type that a flat field can fill.
func FuzzFieldValue(f *testing.F) {
	for _, seed := range []string{"", "-1", "1e309", "0x1p-2", "9223372036854775808", "2026-02-30T25:00:00Z", "-9223372036854775808ns", "::ffff:1.2.3.4%eth0", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range fieldNames {
			in := &streamrt.Incoming{Message: streamrt.Message{Fields: append(plainValues[:len(plainValues):len(plainValues)], streamrt.Field{Name: name, Value: value})}}
			got, err := decode(streamrt.Fields[*everything], in, nil)
			switch {
			case err != nil && !strings.Contains(err.Error(), "field "+name):
				t.Errorf("%s=%q: %v does not name the field", name, value, err)
			case err == nil && name == "String" && got.String != value:
				t.Errorf("%q became %q", value, got.String)
			case err != nil && utf8.ValidString(value) && !utf8.ValidString(err.Error()):
				t.Errorf("%s=%q: the error %q is no text", name, value, err)
			}
		}
	})
}
