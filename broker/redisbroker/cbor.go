package redisbroker

import (
	"encoding/binary"

	"github.com/millrace-go/millrace/broker"
)

// The major types of CBOR that an envelope consists of. They are read and written by hand because every message of a list
// passes here, and the library would allocate and reflect for each.
const (
	cborUnsigned = 0
	cborBytes    = 2
	cborString   = 3
	cborArray    = 4
)

// cborHead reads the head of one data item: its major type and its number or length.
func cborHead(data []byte) (major byte, n uint64, rest []byte, ok bool) {
	if len(data) == 0 {
		return 0, 0, nil, false
	}
	major, n, rest = data[0]>>5, uint64(data[0]&31), data[1:]
	if n < 24 {
		return major, n, rest, true
	}
	size := 1 << (n - 24) // 24 to 27 stand for 1, 2, 4 and 8 bytes; the rest for lengths that are not known
	if n > 27 || len(rest) < size {
		return 0, 0, nil, false
	}
	n = 0
	for _, b := range rest[:size] {
		n = n<<8 | uint64(b)
	}
	return major, n, rest[size:], true
}

// cborText reads a string of bytes or of text.
func cborText(data []byte) (text, rest []byte, ok bool) {
	major, n, rest, ok := cborHead(data)
	if !ok || (major != cborBytes && major != cborString) || n > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n:n], rest[n:], true
}

// cborHeaders reads an array of pairs.
func cborHeaders(data []byte) (headers []broker.HeaderLine, rest []byte, ok bool) {
	major, n, rest, ok := cborHead(data)
	// Three bytes are the least that a pair takes.
	if !ok || major != cborArray || n > uint64(len(rest))/3 {
		return nil, nil, false
	}
	if n > 0 {
		headers = make([]broker.HeaderLine, 0, n)
	}
	for range n {
		var pair uint64
		var name, value []byte
		if major, pair, rest, ok = cborHead(rest); !ok || major != cborArray || pair != 2 {
			return nil, nil, false
		}
		if name, rest, ok = cborText(rest); !ok {
			return nil, nil, false
		}
		if value, rest, ok = cborText(rest); !ok {
			return nil, nil, false
		}
		headers = append(headers, broker.HeaderLine{Name: headerName(name), Value: string(value)})
	}
	return headers, rest, true
}

func appendCBORHead(b []byte, major byte, n int) []byte { return appendCBORUint(b, major, uint64(n)) } //nolint:gosec // a length

func appendCBORUint(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}
