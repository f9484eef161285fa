package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// leaseWait is how long a test waits for a free database.
	leaseWait = 2 * time.Minute
	// markTTL is how long the database of a killed process stays taken on a server that processes share.
	markTTL = 15 * time.Second
	// databaseCount is what a server has without configuration; 0 is left for the marks.
	databaseCount = 16
)

// databases hands out the logical databases of one server. On a server that other processes use too, a key in database
// 0 marks each one that is taken.
type databases struct {
	in    *instance
	among []int
	marks bool

	mu    sync.Mutex
	taken map[int]*mark
}

// mark is one taken database.
type mark struct {
	token string
	end   chan struct{} // closed to end the refresher
	done  chan struct{} // closed by the refresher
}

func newDatabases(in *instance, marks bool) *databases {
	d := &databases{in: in, marks: marks, taken: map[int]*mark{}}
	if db := namedDatabase(in); marks && db > 0 {
		d.among = []int{db}
		return d
	}
	for db := 1; db < databaseCount; db++ {
		d.among = append(d.among, db)
	}
	return d
}

// namedDatabase is the database in the address itself, 0 if there is none.
func namedDatabase(in *instance) int {
	text := strings.Trim(in.base.Path, "/")
	if in.base.Scheme == "unix" {
		text = in.base.Query().Get("db")
	}
	db, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return db
}

// take waits for a free database until ctx ends.
func (d *databases) take(ctx context.Context) (int, error) {
	for {
		db, err := d.try(ctx)
		if err != nil || db > 0 {
			return db, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("all of %v are taken by other tests: %w", d.among, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// try returns 0 where every database is taken.
func (d *databases) try(ctx context.Context) (int, error) {
	for _, db := range d.among {
		m := &mark{token: rand.Text(), end: make(chan struct{}), done: make(chan struct{})}
		d.mu.Lock()
		busy := d.taken[db] != nil
		if !busy {
			d.taken[db] = m
		}
		d.mu.Unlock()
		if busy {
			continue
		}
		if !d.marks {
			return db, nil
		}
		ok, err := d.set(ctx, db, m)
		if ok {
			go d.refresh(db, m)
			return db, nil
		}
		d.mu.Lock()
		delete(d.taken, db)
		d.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// put makes a database free again.
func (d *databases) put(db int) {
	d.mu.Lock()
	m := d.taken[db]
	d.mu.Unlock()
	if d.marks {
		close(m.end)
		<-m.done
	}
	d.mu.Lock()
	delete(d.taken, db)
	d.mu.Unlock()
}

func markKey(db int) string { return "redistest:lease:" + strconv.Itoa(db) }

// set writes the mark of a database unless another process has one there.
func (d *databases) set(ctx context.Context, db int, m *mark) (bool, error) {
	c := d.in.client(0)
	defer c.Close() //nolint:errcheck // the answer is in hand
	err := c.SetArgs(ctx, markKey(db), m.token, redis.SetArgs{Mode: "NX", TTL: markTTL}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mark database %d: %w", db, err)
	}
	return true, nil
}

// unmark deletes a mark that is still this process's.
var unmark = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// refresh keeps the mark alive until the database is put back. Errors are left to the test, whose own commands meet
// the same server.
func (d *databases) refresh(db int, m *mark) {
	defer close(m.done)
	c := d.in.client(0)
	defer c.Close() //nolint:errcheck // nothing depends on it
	tick := time.NewTicker(markTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.PExpire(context.Background(), markKey(db), markTTL)
		case <-m.end:
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			unmark.Run(ctx, c, []string{markKey(db)}, m.token)
			return
		}
	}
}
