package deadletter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-go/millrace/broker"
)

const (
	// importBatch is how many records, and importBytes how many bytes of lines, are written at once.
	importBatch = 500
	importBytes = 2 << 20
	// longestLine bounds one line: a value of 512 MiB, the most that the server takes, in base64.
	longestLine = 1 << 30
)

// Import reads lines as Export writes them and appends each record to the dead letter, with the same fields and a new id, and
// returns how many it wrote. A key that does not exist is made, of the structure that the first line names; one that exists
// keeps its own, and a stream's records go into a list where a list can hold them. Empty lines are skipped.
//
// A line that cannot be read ends the import with an error that names it: the lines before it are written, it and those
// behind it are not. An import is no move: one that runs twice writes twice.
func (q *Queue) Import(ctx context.Context, r io.Reader) (int, error) {
	in := &importing{queue: q}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	for n := 1; lines.Scan(); n++ {
		data := bytes.TrimSpace(lines.Bytes())
		if len(data) == 0 {
			continue
		}
		letter, structure, err := readLine(data)
		if err != nil {
			return in.end(ctx, fmt.Errorf("line %d: %w", n, err))
		}
		if err := in.add(ctx, n, letter, structure, len(data)); err != nil {
			return in.written, err
		}
	}
	if err := lines.Err(); err != nil {
		return in.end(ctx, err)
	}
	return in.end(ctx, nil)
}

// importing is one call of Import.
type importing struct {
	queue   *Queue
	letters broker.Letters
	// What follows waits to be written.
	batch []*broker.Letter
	lines []int
	bytes int

	written int
}

// end writes what is left, and then fails with the error.
func (in *importing) end(ctx context.Context, err error) (int, error) {
	if err != nil {
		err = fmt.Errorf("dead letter %q: import: %w", in.queue.key, err)
	}
	return in.written, errors.Join(err, in.flush(ctx))
}

func (in *importing) add(ctx context.Context, n int, letter *broker.Letter, structure broker.Structure, size int) error {
	if in.letters == nil {
		var err error
		if in.letters, err = in.queue.open(ctx, structure); err != nil {
			return err
		}
	}
	in.batch, in.lines, in.bytes = append(in.batch, letter), append(in.lines, n), in.bytes+size
	if len(in.batch) < importBatch && in.bytes < importBytes {
		return nil
	}
	return in.flush(ctx)
}

func (in *importing) flush(ctx context.Context) error {
	if len(in.batch) == 0 {
		return nil
	}
	n, err := in.letters.Add(ctx, in.batch)
	in.written += n
	if err != nil {
		err = fmt.Errorf("import: line %d: %w", in.lines[n], err)
	}
	in.batch, in.lines, in.bytes = in.batch[:0], in.lines[:0], 0
	return err
}

func readLine(data []byte) (*broker.Letter, broker.Structure, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, 0, fmt.Errorf("it is no record as Export writes it: %w", err)
	}
	if d.More() {
		return nil, 0, errors.New("it is more than one record; write each on a line of its own")
	}
	structure := broker.StructureStream
	switch l.Structure {
	case "stream", "":
	case "list":
		structure = broker.StructureList
	default:
		return nil, 0, fmt.Errorf("its structure %q is neither stream nor list", l.Structure)
	}
	letter := new(broker.Letter)
	switch {
	case l.Item != nil && len(l.Fields) == 0:
		letter.Raw = *l.Item
		if structure != broker.StructureList {
			return nil, 0, errors.New("an item belongs to a list; name the structure list")
		}
	case l.Item == nil && len(l.Fields) > 0:
		for _, pair := range l.Fields {
			letter.Fields = append(letter.Fields, broker.Field{Name: pair[0], Value: pair[1]})
		}
	default:
		return nil, 0, errors.New("it has neither fields nor an item, or both")
	}
	return letter, structure, nil
}
