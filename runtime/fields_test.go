package streamrt_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	streamrt "github.com/millrace-go/millrace/runtime"
)

type click struct {
	URL   string `stream:"url"`
	Count int
}

// entry makes an entry of names and values.
func entry(namesAndValues ...string) *streamrt.Incoming {
	in := new(streamrt.Incoming)
	for i := 0; i < len(namesAndValues); i += 2 {
		in.Message.Fields = append(in.Message.Fields, streamrt.Field{Name: namesAndValues[i], Value: namesAndValues[i+1]})
	}
	return in
}

type (
	text     string
	flag     bool
	small    int8
	ratio    float32
	blob     []byte
	stamp    time.Time
	counters struct {
		Hits   uint16
		Misses *uint16
	}
	origin struct{ Host netip.Addr }
)

type everything struct {
	counters
	origin
	String   string
	Text     text
	Bytes    []byte
	Blob     blob
	Bool     bool
	Flag     flag
	Int      int
	Small    small
	Int16    int16
	Int32    int32
	Int64    int64
	Uint     uint
	Uint8    uint8
	Uint32   uint32
	Uint64   uint64
	Float32  ratio
	Float64  float64
	Time     time.Time
	Stamp    stamp     `stream:"stamp,unix"`
	Unix     time.Time `stream:"unix,unix"`
	UnixMS   time.Time `stream:",unixms"`
	Duration time.Duration
	InS      time.Duration  `stream:"sec,s"`
	Brief    *time.Duration `stream:"ms,ms"`
	Big      big.Int
	BigP     *big.Int
	Absent   *string
	Skipped  chan int `stream:"-"`
	private  func()   //nolint:unused // what is not exported is left alone
}

func TestFieldsFillEveryType(t *testing.T) {
	in := entry(
		"Hits", "65535", "Misses", "0", "Host", "10.0.0.1", "String", "a\x00\xff", "Text", "", "Bytes", "\x00b", "Blob", "c",
		"Bool", "1", "Flag", "true", "Int", "-7", "Small", "-128", "Int16", "-32768", "Int32", "2147483647",
		"Int64", "-9223372036854775808", "Uint", "0", "Uint8", "255", "Uint32", "4294967295", "Uint64", "18446744073709551615",
		"Float32", "0.5", "Float64", "-1e300", "Time", "2026-02-03T04:05:06.789+02:00", "stamp", "-1", "unix", "1700000000",
		"UnixMS", "1700000000123", "Duration", "1m30s", "sec", "-3", "ms", "1500", "Big", "123456789012345678901234567890", "BigP", "5",
		"unknown", "ignored",
	)
	misses, millis := uint16(0), 1500*time.Millisecond
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	want := everything{
		counters: counters{65535, &misses}, origin: origin{netip.MustParseAddr("10.0.0.1")},
		String: "a\x00\xff", Bytes: []byte("\x00b"), Blob: blob("c"), Bool: true, Flag: true, Int: -7, Small: -128,
		Int16: math.MinInt16, Int32: math.MaxInt32, Int64: math.MinInt64, Uint8: 255, Uint32: math.MaxUint32,
		Uint64: math.MaxUint64, Float32: 0.5, Float64: -1e300, Stamp: stamp(time.Unix(-1, 0).UTC()),
		Unix: time.Unix(1700000000, 0).UTC(), UnixMS: time.UnixMilli(1700000000123).UTC(), Duration: 90 * time.Second,
		InS: -3 * time.Second, Brief: &millis, Big: *huge, BigP: big.NewInt(5),
	}
	got, err := decode(streamrt.Fields[*everything], in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Date(2026, 2, 3, 2, 5, 6, 789e6, time.UTC); !got.Time.Equal(at) {
		t.Errorf("Time is %s, want %s", got.Time, at)
	}
	got.Time = time.Time{}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("\n got %+v\nwant %+v", *got, want)
	}
	in.Message.Fields[2].Value = "" // a handler may keep what it got
	if got.String != "a\x00\xff" {
		t.Error("the payload changed with the message")
	}
}

// The error names the field and shows the value; the entry is malformed then.
func TestFieldsRefuseAValue(t *testing.T) {
	type numbers struct {
		N int8           `stream:"n"`
		U *uint8         `stream:"u"`
		F *float32       `stream:"f"`
		B *bool          `stream:"b"`
		T *time.Time     `stream:"t"`
		S *time.Time     `stream:"s,unix"`
		M *time.Time     `stream:"m,unixms"`
		D time.Duration  `stream:"d"`
		E *time.Duration `stream:"e,ms"`
		A *netip.Addr    `stream:"a"`
	}
	for _, c := range []struct{ name, value, want string }{
		{"n", "", `field n: "" is not an integer`},
		{"n", "12x", `field n: "12x" is not an integer`},
		{"n", "1.0", `is not an integer`},
		{"n", " 1", `is not an integer`},
		{"n", "0x1", `is not an integer`},
		{"n", "1_0", `is not an integer`},
		{"n", "128", `field n: "128" is out of the range of int8`},
		{"n", "-129", `out of the range of int8`},
		{"n", "99999999999999999999", `out of the range of int8`},
		{"u", "-1", `field u: "-1" is not an integer of 0 or more`},
		{"u", "256", `out of the range of uint8`},
		{"f", "1e39", `field f: "1e39" is out of the range of float32`},
		{"f", "NaN", `is not a finite number`},
		{"f", "-inf", `is not a finite number`},
		{"f", "", `is not a finite number`},
		{"b", "TRUE", `field b: "TRUE" is not true, false, 1 or 0`},
		{"b", "", `is not true, false, 1 or 0`},
		{"t", "2026-02-03 04:05:06", `field t: "2026-02-03 04:05:06" is not a time such as`},
		{"s", "1700000000.5", `field s: "1700000000.5" is not a whole number`},
		{"s", "1700000000123", `field s: "1700000000123" is not within the years 0 to 9999`},
		{"m", "9223372036854775807", `not within the years`},
		{"m", "92233720368547758070", `not within the years`},
		{"d", "90", `field d: "90" is not a duration such as 1m30s`},
		{"e", "9223372036855", `field e: "9223372036855" is out of the range of time.Duration`},
		{"e", "-9223372036855", `out of the range of time.Duration`},
		{"e", "1s", `is not a whole number`},
		{"a", "10.0.0", `field a: "10.0.0": ParseAddr`},
		{"d", strings.Repeat("9", 500), `"` + strings.Repeat("9", 48) + `"… is not a duration`},
	} {
		in := entry("n", "1", "d", "1s", c.name, c.value)
		got, err := decode(streamrt.Fields[numbers], in, nil)
		if err == nil {
			t.Errorf("%s=%q: decoded to %+v", c.name, c.value, got)
		} else if !strings.HasPrefix(err.Error(), "fields: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
	}
	if _, err := decode(streamrt.Fields[numbers], entry("n", "1"), nil); err == nil || !strings.Contains(err.Error(), "no field d") {
		t.Errorf("a missing field: %v", err)
	}
}

func TestFieldsFindTheName(t *testing.T) {
	type names struct {
		Amount *string
		ID     *string
		Other  *string `stream:"id"`
		Tagged *string `stream:"user_name"`
	}
	for _, c := range []struct {
		name  string
		entry *streamrt.Incoming
		want  [4]string
	}{
		{"exactly", entry("Amount", "a"), [4]string{"a"}},
		{"in another case", entry("aMOUNT", "a"), [4]string{"a"}},
		{"exactly before in another case", entry("Amount", "a", "amount", "b"), [4]string{"a"}},
		{"the last of repeated names", entry("Amount", "a", "Amount", "b"), [4]string{"b"}},
		{"the last in another case", entry("amount", "a", "AMOUNT", "b"), [4]string{"b"}},
		{"a name that is another's exactly", entry("id", "a"), [4]string{2: "a"}},
		{"both", entry("id", "a", "Id", "b"), [4]string{1: "b", 2: "a"}},
		{"a tag exactly", entry("user_name", "a"), [4]string{3: "a"}},
		{"a tag in no other case", entry("User_Name", "a"), [4]string{}},
		{"not by the Go name where there is a tag", entry("Tagged", "a"), [4]string{}},
		{"nothing", entry(), [4]string{}},
	} {
		got, err := decode(streamrt.Fields[names], c.entry, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, p := range []*string{got.Amount, got.ID, got.Other, got.Tagged} {
			if value := c.want[i]; (p == nil) != (value == "") || p != nil && *p != value {
				t.Errorf("%s: field %d is %v, want %q", c.name, i, p, value)
			}
		}
	}
}

// What a value was is what the handler gets.
func TestFieldsReadWhatWasWritten(t *testing.T) {
	type values struct {
		S string
		I int64
		U uint32
		F float64
		B bool
		T time.Time
		M time.Time `stream:",unixms"`
		D time.Duration
	}
	rapid.Check(t, func(t *rapid.T) {
		want := values{
			S: rapid.String().Draw(t, "S"), I: rapid.Int64().Draw(t, "I"), U: rapid.Uint32().Draw(t, "U"),
			F: rapid.Float64().Draw(t, "F"), B: rapid.Bool().Draw(t, "B"), D: time.Duration(rapid.Int64().Draw(t, "D")),
			T: time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, "T"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			M: time.UnixMilli(rapid.Int64Range(-6e13, 2e14).Draw(t, "M")).UTC(),
		}
		in := entry(
			"S", want.S, "I", fmt.Sprint(want.I), "U", fmt.Sprint(want.U), "F", fmt.Sprint(want.F), "B", fmt.Sprint(want.B),
			"T", want.T.Format(time.RFC3339Nano), "M", fmt.Sprint(want.M.UnixMilli()), "D", want.D.String(),
		)
		in.Message.Fields = rapid.Permutation(in.Message.Fields).Draw(t, "order")
		got, err := decode(streamrt.Fields[values], in, nil)
		if err != nil || got != want {
			t.Fatalf("\n got %+v, %v\nwant %+v", got, err, want)
		}
	})
}

type (
	embedsPointer  struct{ *click }
	Base           struct{ A string }
	embedsExported struct{ *Base }
	hidden         int
)

// Subscribe may be called by hand: the type is refused by an error before anything is read, not by a panic.
func TestFieldsRefuseAType(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{bound[int](), "codec=fields fills a struct or a pointer to one, and int is neither"},
		{bound[map[string]string](), "map[string]string is neither"},
		{bound[**click](), "*streamrt_test.click is neither"},
		{bound[any](), "interface {} is neither"},
		{bound[time.Time](), "codec=fields has nothing to fill: time.Time has no exported field"},
		{bound[struct{ C chan int }](), "chan int is no flat value"},
		{bound[struct{ F func() }](), "func() is no flat value"},
		{bound[struct{ M map[string]int }](), "map[string]int is no flat value"},
		{bound[struct{ A any }](), "interface {} is no flat value"},
		{bound[struct{ L []string }](), "[]string is no flat value"},
		{bound[struct{ B [4]byte }](), "[4]uint8 is no flat value"},
		{bound[struct{ C complex64 }](), "complex64 is no flat value"},
		{bound[struct{ P uintptr }](), "uintptr is no flat value"},
		{bound[struct{ P **int }](), "**int is no flat value"},
		{bound[struct{ Click click }](), "cannot fill Click of struct"},
		{bound[struct {
			click `stream:"click"`
		}](), "it is not exported"},
		{bound[embedsPointer](), "cannot fill click of streamrt_test.embedsPointer: it is embedded by pointer; embed the struct itself"},
		{bound[embedsExported](), "cannot fill Base of streamrt_test.embedsExported: it is embedded by pointer"},
		{bound[struct{ hidden }](), "cannot fill hidden of struct"},
		{bound[struct {
			a int `stream:"a"`
		}](), "cannot fill a of struct"},
		{bound[struct {
			A int `stream:"a,omitempty"`
		}](), `its tag has the option "omitempty"`},
		{bound[struct {
			A int `stream:"a,unix"`
		}](), `its tag has the option "unix"`},
		{bound[struct {
			A time.Time `stream:"a,ms"`
		}](), `its tag has the option "ms"`},
		{bound[struct {
			A, B int `stream:"a"`
		}](), `cannot fill B of struct { A int "stream:\"a\""; B int "stream:\"a\"" }: the name "a" belongs to A already`},
		{bound[struct {
			click
			Count int
		}](), `the name "Count" belongs to click.Count already`},
		{
			streamrt.SubscribeErr(streamrt.Spec{Name: "t", List: "l"}, streamrt.Fields, func(context.Context, click) error { return nil }).Err(),
			"codec=fields reads the entries of a stream",
		},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("\n got %v\nwant %s", c.err, c.want)
		}
	}
	for _, err := range []error{bound[struct{}](), bound[*click](), bound[everything]()} {
		if err != nil {
			t.Error(err)
		}
	}
	two := bound[struct {
		A chan int
		B func()
	}]()
	if two == nil || !strings.Contains(two.Error(), "fill A of") || !strings.Contains(two.Error(), "fill B of") {
		t.Errorf("not every problem is told: %v", two)
	}
}

// bound is the error of a subscription for payloads of type T. One that has an error answers every message with it.
func bound[T any]() error {
	s := streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "s"}, streamrt.Fields, func(context.Context, T) error { return nil })
	if _, err := s.Prepare(entry(), nil); s.Err() != nil && err == nil {
		panic("a subscription with an error decoded")
	}
	return s.Err()
}

func BenchmarkFields(b *testing.B) {
	type event struct {
		User   string `stream:"user"`
		URL    string `stream:"url"`
		Status int    `stream:"status"`
		Bytes  int64
		At     time.Time `stream:"at,unixms"`
	}
	in := entry("user", "u-1234", "url", "https://example.com/a/b", "status", "200", "bytes", "51234", "at", "1700000000123", "agent", "curl")
	s := streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "s"}, streamrt.Fields, func(context.Context, event) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Prepare(in, nil); err != nil {
			b.Fatal(err)
		}
	}
}
