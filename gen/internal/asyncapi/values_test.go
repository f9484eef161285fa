package asyncapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/gen/internal/asyncapi/testdata/shop"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// payload returns the schema of a message of the shop, ready to check values.
func payload(t *testing.T, document map[string]any, channel, message string) (accepts func(v any) error) {
	t.Helper()
	m := asObject(asObject(asObject(asObject(document["channels"])[channel])["messages"])[message])
	s, err := compile(document, m["payload"])
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate
}

func orders() []*shop.Order {
	state, five := shop.Open, 5
	line := shop.Line{Name: "cup", Count: 255}
	full := &shop.Order{
		Header: shop.Header{Source: "web"}, Gift: &shop.Gift{Card: "c"},
		ID: 1, Total: -5, Note: "n", State: shop.Closed, Before: &state, Level: shop.High, Access: shop.Read | shop.Write,
		Lines: []shop.Line{line}, Labels: map[string]string{"a": "b"}, Counts: map[int8]int{-3: 4},
		ByState: map[shop.State]bool{shop.Open: true}, Picture: []byte{0, 255}, At: time.Now(), Took: time.Minute,
		Address: netip.MustParseAddr("::1"), Big: new(big.Int).Lsh(big.NewInt(1), 80), Any: []any{1, "x", nil},
		Raw: json.RawMessage(`[1]`), Number: "1.5e3", Page: shop.Page[shop.Line]{Next: &shop.Page[shop.Line]{}},
		Pages: shop.Page[[]shop.Line]{Items: [][]shop.Line{nil, {line}}}, Maybe: &five,
	}
	least := &shop.Order{State: shop.Open, Level: shop.Low}
	full.Parent = least
	return []*shop.Order{full, least}
}

// TestSchemasAcceptWhatIsPublished writes values as the library does: a schema that refused one would be wrong.
func TestSchemasAcceptWhatIsPublished(t *testing.T) {
	_, document := describe(t, "testdata/shop", ".")
	accepts := payload(t, document, "stream.orders", "Order")
	for _, o := range orders() {
		if err := accepts(written(t, o)); err != nil {
			t.Error(err)
		}
	}
	accepts = payload(t, document, "stream.orders", "Sample.cbor")
	for _, s := range []shop.Sample{
		{State: shop.Open},
		{Key: 4, Left: "l", Point: shop.Point{X: 1, Y: -2}, Body: []byte{0, 255}, At: time.Now(), Took: time.Hour, State: shop.Closed, Table: map[string]int{"a": 1}},
	} {
		if err := accepts(writtenAsCBOR(t, s)); err != nil {
			t.Error(err)
		}
	}
	accepts = payload(t, document, "stream.clicks", "Click.fields")
	for _, took := range []string{"", "1m30s"} {
		click := map[string]any{
			"url": "/", "user": "-17", "small": "255", "rate": "-1.5e3", "bot": "1", "seen_at": "1700000000123",
			"state": "open", "level": "2", "more": "is ignored",
		}
		if took != "" {
			click["took"] = took
		}
		if err := accepts(click); err != nil {
			t.Error(err)
		}
	}
}

// TestSchemasRefuseWhatIsNone changes one value at a time of an order that is accepted.
func TestSchemasRefuseWhatIsNone(t *testing.T) {
	_, document := describe(t, "testdata/shop", ".")
	accepts := payload(t, document, "stream.orders", "Order")
	for name, bad := range map[string]any{
		"id": -1.0, "total": 5.0, "note": nil, "state": "lost", "before": "lost", "level": 3.0, "access": 256.0,
		"lines": []any{map[string]any{"name": "cup"}}, "labels": map[string]any{"a": 1.0}, "counts": map[string]any{"x": 1.0},
		"byState": map[string]any{"lost": true}, "picture": 1.0, "hash": []any{1.0, 2.0}, "pair": []any{1.0, 2.0, 3.0},
		"took": "1s", "address": 1.0, "big": "1", "page": nil, "yes": true, "maybe": 5.0, "parent": map[string]any{}, "Seen": "x",
	} {
		order := written(t, orders()[0]).(map[string]any)
		if _, ok := order[name]; !ok {
			t.Errorf("an order has no %s", name)
		}
		order[name] = bad
		if accepts(order) == nil {
			t.Errorf("%s: %v is accepted", name, bad)
		}
	}
	for _, name := range []string{"id", "state", "lines", "labels", "at", "source", "-", "Unnamed", "Größe", "empty"} {
		order := written(t, orders()[0]).(map[string]any)
		delete(order, name)
		if accepts(order) == nil {
			t.Errorf("an order without %s is accepted", name)
		}
	}
	accepts = payload(t, document, "stream.clicks", "Click.fields")
	if accepts(map[string]any{"url": "/"}) == nil {
		t.Error("a click without its fields is accepted")
	}
}

// written is the value as encoding/json writes it.
func written(t *testing.T, v any) (decoded any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// writtenAsCBOR is the value as the library's CBOR writes it, in terms of JSON: keys and bytes are text.
func writtenAsCBOR(t *testing.T, v any) any {
	t.Helper()
	body, err := streamrt.CBORCodec{}.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[any]any
	if err := (streamrt.CBORCodec{}).Unmarshal(body, &decoded); err != nil {
		t.Fatal(err)
	}
	return asJSON(t, decoded)
}

func asJSON(t *testing.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = asJSON(t, value)
		}
		return v
	case map[any]any:
		object := map[string]any{}
		for key, value := range v {
			object[fmt.Sprint(key)] = asJSON(t, value)
		}
		return object
	case []any:
		for i := range v {
			v[i] = asJSON(t, v[i])
		}
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	return written(t, v)
}

// TestTheGuideShowsTheDocument compares each JSON block of docs/asyncapi.md with the part that the line before it names, of
// the document of the guides' own code.
func TestTheGuideShowsTheDocument(t *testing.T) {
	document, _ := describe(t, "../../../docs/snippets", ".")
	guide, err := os.ReadFile("../../../docs/asyncapi.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)(<!-- part: (\\S+) -->\n)?```json\n(.*?)\n```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 3 {
		t.Fatalf("the guide has %d JSON blocks", len(blocks))
	}
	for _, b := range blocks {
		part := json.RawMessage(document)
		for _, key := range strings.Split(b[2], "/")[1:] {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(part, &object); err != nil || object[key] == nil {
				t.Fatalf("the document has nothing at %q", b[2])
			}
			part = object[key]
		}
		var want bytes.Buffer
		if err := json.Indent(&want, part, "", "  "); err != nil {
			t.Fatal(err)
		}
		if b[3] != want.String() {
			t.Errorf("the guide shows for %q\n%s\nwhich is\n%s", b[2], b[3], want.String())
		}
	}
}

// TestTheHeadersAreThoseOfTheLibrary compares the document with the constants of the package broker.
func TestTheHeadersAreThoseOfTheLibrary(t *testing.T) {
	_, document := describe(t, "testdata/shop", ".")
	schema := asObject(asObject(asObject(document["components"])["schemas"])["headers"])
	described := asObject(schema["properties"])
	file, err := parser.ParseFile(token.NewFileSet(), "../../../broker/publish.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Header") || len(spec.Values) == 0 {
			return true
		}
		if name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
			constants++
			if described[name] == nil {
				t.Errorf("the document does not know the header %s", name)
			}
		}
		return false
	})
	if constants != len(described) || constants < 11 {
		t.Errorf("the library has %d headers, the document %d", constants, len(described))
	}
}

// TestRefunds compares the document of examples/refunds with testdata/refunds.json. Run
//
//	go run ./cmd/streamgen asyncapi -o gen/internal/asyncapi/testdata/refunds.json ./examples/refunds
//
// to write it anew.
func TestRefunds(t *testing.T) {
	got, _ := describe(t, "../../..", "./examples/refunds")
	want, err := os.ReadFile("testdata/refunds.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the document of examples/refunds is not testdata/refunds.json:\n%s", got)
	}
}
