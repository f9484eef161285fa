package deadletter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/millrace-go/millrace/broker"
)

// line is one record in JSON. Fields are pairs of name and value.
type line struct {
	// ID, Structure and Item tell where the record stood: Item is a list's whole, where Fields do not tell all of it.
	ID        string `json:"id,omitempty"`
	Structure string `json:"structure,omitempty"`
	Fields    []pair `json:"fields,omitempty"`
	Item      *text  `json:"item,omitempty"`
}

// pair is a field, an array of its name and its value.
type pair [2]text

func (p *pair) UnmarshalJSON(data []byte) error {
	var both []text
	if err := json.Unmarshal(data, &both); err != nil {
		return err
	}
	if len(both) != 2 {
		return fmt.Errorf("%.40s is no pair of a name and a value", data)
	}
	*p = pair(both)
	return nil
}

// text is a JSON string where the bytes are UTF-8, and else {"base64": "…"}.
type text []byte

type encoded struct {
	Base64 *[]byte `json:"base64"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if !utf8.Valid(t) {
		b := []byte(t)
		return json.Marshal(encoded{&b})
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(string(t))
	return out.Bytes(), err
}

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = text(s)
		return nil
	}
	var e encoded
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.Base64 == nil {
		return fmt.Errorf("%.40s is neither a string nor {\"base64\": \"…\"}", data)
	}
	*t = *e.Base64
	return nil
}

// Export writes the records that the filter lets through, the oldest first, as lines of JSON, and returns how many. Each line
// is an object: "id" and "structure" tell where the record stood, "fields" are all its fields in their order as pairs of name
// and value. A name or a value that is not UTF-8 is {"base64": "…"} instead of a string, so that Import puts back every
// byte. Entries that are no dead letters are exported like any other. Nothing is deleted.
func (q *Queue) Export(ctx context.Context, w io.Writer, filter Filter) (int, error) {
	out := bufio.NewWriter(w)
	n := 0
	for p, err := range q.pages(ctx, filter, "") {
		if err != nil {
			return n, errors.Join(err, out.Flush())
		}
		for _, l := range p.letters {
			if !p.matches(newRecord(l)) {
				continue
			}
			if err := writeLine(out, l); err != nil {
				return n, fmt.Errorf("dead letter %q: export of record %s: %w", q.key, l.ID, err)
			}
			n++
		}
	}
	return n, out.Flush()
}

func writeLine(out io.Writer, l *broker.Letter) error {
	record := line{ID: l.ID, Structure: "stream"}
	if l.Raw != nil {
		record.Structure = "list"
	}
	for _, f := range l.Fields {
		record.Fields = append(record.Fields, pair{f.Name, f.Value})
	}
	if l.Raw != nil && !l.Whole {
		item := text(l.Raw)
		record.Fields, record.Item = nil, &item
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(record)
}
