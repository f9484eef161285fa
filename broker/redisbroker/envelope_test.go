package redisbroker

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/broker"
)

func lines(pairs ...string) []broker.HeaderLine {
	var all []broker.HeaderLine
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, broker.HeaderLine{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

// marked is the mark and whatever the CBOR library makes of v.
func marked(t *testing.T, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(memberMark), b...)
}

func TestAMessageWithoutHeadersIsItsBareBody(t *testing.T) {
	for _, body := range []string{"", "x", `{"a":1}`, "\xd9\xd9\xf7\x83\x01\x80\x40", string(memberMark[:7]), strings.Repeat("\x00\xff", 1<<19)} {
		e := newEnvelope(nil, []byte(body))
		if got := e.seal(); string(got) != body {
			t.Errorf("%.20q became %.20q", body, got)
		}
		if d := envelopeDelivery("7", []byte(body)); d.Fault != nil || d.Newer || !d.HasBody || string(d.Body) != body || len(d.Headers) > 0 {
			t.Errorf("%.20q was read as %+v", body, d)
		}
	}
}

func TestABodyThatBeginsWithTheMarkIsWrapped(t *testing.T) {
	for _, body := range []string{string(memberMark), string(memberMark) + "\x83\x01\x80\x41x"} {
		e := newEnvelope(nil, []byte(body))
		sealed := e.seal()
		if string(sealed) == body {
			t.Errorf("%q stands as it is", body)
		}
		if d := envelopeDelivery("7", sealed); d.Fault != nil || string(d.Body) != body || len(d.Headers) > 0 {
			t.Errorf("%q was read as %+v", body, d)
		}
	}
}

// The CBOR library reads what is written by hand, and the other way round.
func TestAnEnvelopeIsTheDocumentedArray(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.Byte(), 0, 300)
		headers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) broker.HeaderLine {
			return broker.HeaderLine{Name: string(texts.Draw(rt, "name")), Value: string(texts.Draw(rt, "value"))}
		}), 1, 30).Draw(rt, "headers")
		body := texts.Draw(rt, "body")
		key := rapid.StringN(1, 300, -1).Draw(rt, "key")
		pairs := make([][2][]byte, len(headers))
		for i, h := range headers {
			pairs[i] = [2][]byte{[]byte(h.Name), []byte(h.Value)}
		}
		e := newEnvelope(headers, body)
		if want := marked(t, []any{1, pairs, body}); !bytes.Equal(e.seal(), want) {
			rt.Fatalf("sealed %x, want %x", e.seal(), want)
		}
		if want := marked(t, []any{1, pairs, body, key}); !bytes.Equal(e.sealMember(key), want) {
			rt.Fatalf("member %x, want %x", e.sealMember(key), want)
		}
		for _, open := range []func() (envelope, error){
			func() (envelope, error) { return openEnvelope(e.seal()) },
			func() (envelope, error) { return openListMember(e.sealMember(key)) },
		} {
			if got, err := open(); err != nil || !bytes.Equal(got.body, body) || !reflect.DeepEqual(got.headers, headers) {
				rt.Fatalf("read back %+v: %v", got, err)
			}
		}
		before, after := e.sealAround("at", key)
		stamped := newEnvelope(append(headers, broker.HeaderLine{Name: "at", Value: "1700000000000"}), body)
		if got := string(before) + "1700000000000" + string(after); got != string(stamped.sealMember(key)) {
			rt.Fatalf("stamped %x", got)
		}
	})
}

func TestWhatBeginsWithTheMarkAndIsNoEnvelopeIsMalformedAndKept(t *testing.T) {
	whole := newEnvelope(lines("a", "b"), []byte("body"))
	bad := map[string][]byte{
		"only the mark":      memberMark,
		"no array":           marked(t, "text"),
		"one element":        marked(t, []any{1}),
		"two elements":       marked(t, []any{1, []any{}}),
		"four elements":      marked(t, []any{1, []any{}, []byte("b"), "k"}),
		"a negative version": marked(t, []any{-1, []any{}, []byte("b")}),
		"headers of a map":   marked(t, []any{1, map[string]string{"a": "b"}, []byte("b")}),
		"a header of three":  marked(t, []any{1, []any{[]string{"a", "b", "c"}}, []byte("b")}),
		"a body of a number": marked(t, []any{1, []any{}, 7}),
		"something behind":   append(whole.seal(), 0),
		"a million headers":  append(bytes.Clone(memberMark), 0x83, 1, 0x9a, 0, 0x0f, 0x42, 0x40),
		"a huge string":      append(bytes.Clone(memberMark), 0x83, 1, 0x80, 0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"an open array":      append(bytes.Clone(memberMark), 0x9f, 1, 0x80, 0x40, 0xff),
		"a later one, cut":   marked(t, []any{2, []any{}, []byte("b")})[:12],
	}
	for n := len(memberMark); n < len(whole.seal()); n++ {
		bad["cut at "+string(rune('a'+n))] = whole.seal()[:n]
	}
	for name, data := range bad {
		d := envelopeDelivery("7", data)
		if !errors.Is(d.Fault, errEnvelope) || !bytes.Equal(d.Body, data) || d.Newer {
			t.Errorf("%s: %+v", name, d)
		}
		buried := burialEnvelope(&broker.Settlement{Delivery: d, Burial: &broker.Burial{Reason: "malformed", ID: "7"}})
		letter := envelopeDelivery("8", buried.seal())
		if letter.Burial == nil || letter.Burial.Reason != "malformed" || !bytes.Equal(letter.Body, data) {
			t.Errorf("%s: the dead letter is %+v", name, letter)
		}
	}
}

func TestEditsKeepTheOrderAndTheRepeatsOfOtherHeaders(t *testing.T) {
	e := newEnvelope(lines("x", "1", "losses", "2", "x", "2", "dlq_reason", "old", "y", ""), []byte("b"))
	d := envelopeDelivery("7", e.seal())
	if d.Burial == nil || d.Burial.Reason != "old" || !reflect.DeepEqual(d.Headers, lines("x", "1", "losses", "2", "x", "2", "y", "")) {
		t.Errorf("read as %+v", d)
	}
	got := editedEnvelope(d, broker.Edits{Set: lines("retry-count", "1", "y", "new"), Remove: []string{"losses"}})
	want := lines("x", "1", "x", "2", "dlq_reason", "old", "retry-count", "1", "y", "new", "message-id", "7")
	if !reflect.DeepEqual(got.headers, want) || string(got.body) != "b" {
		t.Errorf("edited %v", got)
	}
	again := envelopeDelivery("8", got.seal())
	if got = editedEnvelope(again, broker.Edits{}); !reflect.DeepEqual(got.headers, want) {
		t.Errorf("the id was given twice: %v", got.headers)
	}
}

// A later version may put anything behind the headers, and in a delay set the key at the end.
func TestALaterVersionsElementsArePassedOnByteForByte(t *testing.T) {
	headers := [][2][]byte{{[]byte("task"), []byte("t")}}
	for _, behind := range [][]any{{}, {[]byte("body")}, {map[int]any{1: []any{"deep", 2.5}}, nil, []byte("body")}} {
		item := marked(t, append([]any{7, headers}, behind...))
		d := envelopeDelivery("7", item)
		if d.Fault != nil || !d.Newer || d.HasBody || !reflect.DeepEqual(d.Headers, lines("task", "t")) {
			t.Fatalf("read as %+v", d)
		}
		e := editedEnvelope(d, broker.Edits{Set: lines("unknown-since", "1")})
		edited := [][2][]byte{{[]byte("task"), []byte("t")}, {[]byte("unknown-since"), []byte("1")}, {[]byte("message-id"), []byte("7")}}
		if want := marked(t, append([]any{7, edited}, behind...)); !bytes.Equal(e.seal(), want) {
			t.Errorf("became %x, want %x", e.seal(), want)
		}
		member := e.sealMember("k")
		if want := marked(t, append(append([]any{7, edited}, behind...), "k")); !bytes.Equal(member, want) {
			t.Errorf("the member is %x, want %x", member, want)
		}
		back, err := openListMember(member)
		if err != nil || !bytes.Equal(back.seal(), e.seal()) {
			t.Errorf("out of the delay set came %x, %v", back.seal(), err)
		}
	}
}

func FuzzOpeningAnEnvelopeNeverFails(f *testing.F) {
	e := newEnvelope(lines("a", "b"), []byte("body"))
	f.Add(e.seal())
	f.Add(e.sealMember("k"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := envelopeDelivery("1", append(bytes.Clone(memberMark), data...))
		if d.Fault == nil && !d.Newer {
			e, _ := openEnvelope(d.Raw)
			if again := envelopeDelivery("1", e.seal()); !bytes.Equal(again.Body, d.Body) || !reflect.DeepEqual(again.Headers, d.Headers) {
				t.Errorf("%x was read as %+v, and written as %x", data, d, e.seal())
			}
		}
		_, _ = openListMember(d.Raw)
	})
}
