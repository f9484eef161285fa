package chaos

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/app"
)

// call is one run of a handler as the journal tells it.
type call struct {
	// worker is the number of the process's start, n that of the call in it.
	worker, n int
	pid       int
	// mount is the stream that the message came from, id the message's and entry that of its entry.
	mount, key, id, entry string
	attempt, losses       int
	began                 time.Time
	// ended is zero where the process did not live to see it.
	ended time.Time
}

// signature names the call in the error that its handler ends with.
func (c *call) signature() string { return fmt.Sprintf("by call %d/%d", c.worker, c.n) }

func (c *call) String() string {
	ended := "never ended"
	if !c.ended.IsZero() {
		ended = "took " + c.ended.Sub(c.began).String()
	}
	return fmt.Sprintf("%s attempt %d losses %d %s (pid %d, message %s, entry %s) at %s, %s",
		c.key, c.attempt, c.losses, c.signature(), c.pid, c.id, c.entry, c.began.Format("15:04:05.000"), ended)
}

// pen writes the journal of one process: a line when a call begins and one when it ends, each in a single write to a
// file opened for appending. The kernel has the line when the write returns, so that a killed process loses none.
type pen struct {
	dir    string
	worker int
	file   *os.File

	mu sync.Mutex
	n  int
}

func newPen(dir string, worker int) (*pen, error) {
	path := filepath.Join(dir, "calls-"+strconv.Itoa(worker))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &pen{dir: dir, worker: worker, file: file}, nil
}

// ready notes that the process reads.
func (p *pen) ready() error {
	return os.WriteFile(filepath.Join(p.dir, "ready-"+strconv.Itoa(p.worker)), nil, 0o600)
}

// begin notes that a call begins.
func (p *pen) begin(key string, m app.Message) (*call, error) {
	p.mu.Lock()
	p.n++
	c := &call{
		worker: p.worker, n: p.n, pid: os.Getpid(), mount: m.Source, key: key, id: m.ID, entry: m.EntryID,
		attempt: m.Attempt, losses: m.Losses, began: time.Now(),
	}
	p.mu.Unlock()
	_, err := fmt.Fprintf(p.file, "b %d %d %s %s %s %s %d %d %d\n",
		c.n, c.pid, c.mount, c.key, c.id, c.entry, c.attempt, c.losses, c.began.UnixNano())
	return c, err
}

func (p *pen) end(c *call) error {
	_, err := fmt.Fprintf(p.file, "e %d %d\n", c.n, time.Now().UnixNano())
	return err
}

// journal reads what all workers of a test have written so far. It belongs to one goroutine.
type journal struct {
	dir   string
	read  map[string]int64 // bytes of each file that have been read
	calls []*call
	open  map[[2]int]*call
}

func newJournal(dir string) *journal {
	return &journal{dir: dir, read: map[string]int64{}, open: map[[2]int]*call{}}
}

// update reads what has been added and returns all calls so far: those of one process in order, the processes as they
// come.
func (j *journal) update() ([]*call, error) {
	paths, err := filepath.Glob(filepath.Join(j.dir, "calls-*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := j.add(path); err != nil {
			return nil, err
		}
	}
	return j.calls, nil
}

func (j *journal) add(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	if _, err := file.Seek(j.read[path], io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	// A line that is just being written comes with the next look.
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	j.read[path] += int64(len(data))
	worker, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "calls-"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if err := j.line(worker, line); err != nil {
			return fmt.Errorf("%s: %q: %w", path, line, err)
		}
	}
	return nil
}

func (j *journal) line(worker int, line string) error {
	c := &call{worker: worker}
	var nanos int64
	if strings.HasPrefix(line, "e ") {
		if _, err := fmt.Sscanf(line, "e %d %d\n", &c.n, &nanos); err != nil {
			return err
		}
		if begun := j.open[[2]int{worker, c.n}]; begun != nil {
			begun.ended = time.Unix(0, nanos)
		}
		return nil
	}
	if _, err := fmt.Sscanf(line, "b %d %d %s %s %s %s %d %d %d\n",
		&c.n, &c.pid, &c.mount, &c.key, &c.id, &c.entry, &c.attempt, &c.losses, &nanos); err != nil {
		return err
	}
	c.began = time.Unix(0, nanos)
	j.calls = append(j.calls, c)
	j.open[[2]int{worker, c.n}] = c
	return nil
}
