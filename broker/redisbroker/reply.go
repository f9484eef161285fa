package redisbroker

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Replies that carry entries are parsed in place from their bytes: go-redis would allocate every field apart, and lets
// repeated field names collapse.

var errReply = errors.New("redis: a reply that is no list of entries")

// reply walks through one raw RESP reply, version 2 or 3. What it returns points into the buffer.
type reply struct {
	data []byte
	at   int
}

// serverError is an error reply, as go-redis would return it.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks the text as the server's own, for [isRefused].
func (e serverError) RedisError() {}

var _ redis.Error = serverError("")

// line returns the next line: its type byte and the rest.
func (r *reply) line() (byte, []byte, error) {
	end := bytes.Index(r.data[r.at:], []byte("\r\n"))
	if end < 1 {
		return 0, nil, errReply
	}
	line := r.data[r.at : r.at+end]
	r.at += end + 2
	if line[0] == '-' {
		return 0, nil, serverError(line[1:])
	}
	return line[0], line[1:], nil
}

// length reads the head of an array or a map, and returns the number of elements (a map's pairs count twice), -1 for nil.
func (r *reply) length() (int, error) {
	kind, rest, err := r.line()
	if err != nil {
		return 0, err
	}
	if kind == '_' {
		return -1, nil
	}
	n, err := strconv.Atoi(string(rest))
	if err != nil {
		return 0, errReply
	}
	switch kind {
	case '*', '~':
		return n, nil
	case '%':
		return 2 * n, nil
	case '$': // $-1 is RESP 2's nil
		if n == -1 {
			return -1, nil
		}
	}
	return 0, errReply
}

// text reads a string.
func (r *reply) text() ([]byte, error) {
	kind, rest, err := r.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return rest, nil
	case '$':
		n, err := strconv.Atoi(string(rest))
		if err != nil || n < 0 || r.at+n+2 > len(r.data) {
			return nil, errReply
		}
		s := r.data[r.at : r.at+n : r.at+n]
		r.at += n + 2
		return s, nil
	}
	return nil, errReply
}

// integer reads a number.
func (r *reply) integer() (int64, error) {
	kind, rest, err := r.line()
	if err != nil {
		return 0, err
	}
	if kind != ':' {
		return 0, errReply
	}
	return strconv.ParseInt(string(rest), 10, 64)
}

// fields reads the names and values of an entry; none and false for one that has vanished.
func (r *reply) fields(room []broker.Field) ([]broker.Field, bool, error) {
	n, err := r.length()
	if err != nil {
		return room, false, err
	}
	if n < 0 {
		return room, false, nil
	}
	for range n / 2 {
		name, err := r.text()
		if err != nil {
			return room, false, err
		}
		value, err := r.text()
		if err != nil {
			return room, false, err
		}
		room = append(room, broker.Field{Name: name, Value: value})
	}
	return room, true, nil
}

// parseRead reads the reply of XREADGROUP of one stream. Entries that were pending before come with their idle time and
// delivery count where CLAIM was given. It returns the ids of the entries that have vanished apart.
func parseRead(data []byte) (deliveries []*broker.Delivery, pending int, vanished []string, err error) {
	r := &reply{data: data}
	n, err := r.length()
	if err != nil || n <= 0 {
		return nil, 0, nil, err
	}
	// RESP 2 wraps the pair of key and entries into an array, RESP 3 has a map.
	if data[0] == '*' {
		if _, err := r.length(); err != nil {
			return nil, 0, nil, err
		}
	}
	if _, err := r.text(); err != nil {
		return nil, 0, nil, err
	}
	entries, err := r.length()
	if err != nil {
		return nil, 0, nil, err
	}
	deliveries = make([]*broker.Delivery, 0, max(entries, 0))
	// They came together, in one buffer, and share what else they are made of.
	all := make([]broker.Delivery, max(entries, 0))
	room := make([]broker.Field, 0, max(entries, 0))
	for i := range entries {
		parts, err := r.length()
		if err != nil {
			return nil, 0, nil, err
		}
		id, err := r.text()
		if err != nil {
			return nil, 0, nil, err
		}
		start, present := len(room), false
		if room, present, err = r.fields(room); err != nil {
			return nil, 0, nil, err
		}
		idle, before := int64(0), int64(0)
		if parts == 4 {
			if idle, err = r.integer(); err != nil {
				return nil, 0, nil, err
			}
			if before, err = r.integer(); err != nil {
				return nil, 0, nil, err
			}
		}
		if !present {
			vanished = append(vanished, string(id))
			continue
		}
		if idle > 0 || before > 0 { // What was handed back uncharged has no delivery before.
			pending++
		}
		fill(&all[i], string(id), before+1, room[start:len(room):len(room)])
		deliveries = append(deliveries, &all[i])
	}
	return deliveries, pending, vanished, nil
}

// parseRange reads the reply of XRANGE and XREVRANGE. The deliveries were handed out to nobody: their count is 0.
func parseRange(data []byte) ([]*broker.Delivery, error) {
	r := &reply{data: data}
	n, err := r.length()
	if err != nil {
		return nil, err
	}
	deliveries := make([]*broker.Delivery, 0, max(n, 0))
	for range n {
		if _, err := r.length(); err != nil {
			return nil, err
		}
		id, err := r.text()
		if err != nil {
			return nil, err
		}
		fields, _, err := r.fields(nil)
		if err != nil {
			return nil, err
		}
		deliveries = append(deliveries, delivery(string(id), 0, fields))
	}
	return deliveries, nil
}

// taken is what a script took back.
type taken struct {
	deliveries []*broker.Delivery
	// vanished were acknowledged; own are pending under this consumer.
	vanished, own []string
	// next is the id behind which the next call goes on, "" where the script saw all.
	next string
}

// parseTaken reads the reply of the take script: [vanished ids, [[id, count, fields]...], vanished ids of our own, next].
func parseTaken(data []byte) (t taken, err error) {
	r := &reply{data: data}
	if _, err = r.length(); err != nil {
		return t, err
	}
	if t.vanished, err = r.texts(); err != nil {
		return t, err
	}
	if t.deliveries, err = r.taken(); err != nil {
		return t, err
	}
	if t.own, err = r.texts(); err != nil {
		return t, err
	}
	next, err := r.text()
	t.next = string(next)
	return t, err
}

// texts reads a list of strings.
func (r *reply) texts() ([]string, error) {
	n, err := r.length()
	if err != nil {
		return nil, err
	}
	var texts []string
	for range n {
		text, err := r.text()
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// taken reads a list of [id, count, fields].
func (r *reply) taken() ([]*broker.Delivery, error) {
	n, err := r.length()
	if err != nil {
		return nil, err
	}
	var deliveries []*broker.Delivery
	for range n {
		if _, err := r.length(); err != nil {
			return nil, err
		}
		id, err := r.text()
		if err != nil {
			return nil, err
		}
		count, err := r.integer()
		if err != nil {
			return nil, fmt.Errorf("delivery count of %s: %w", id, err)
		}
		fields, _, err := r.fields(nil)
		if err != nil {
			return nil, err
		}
		deliveries = append(deliveries, delivery(string(id), count, fields))
	}
	return deliveries, nil
}
