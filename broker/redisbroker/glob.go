package redisbroker

import "strings"

// matches reports whether a name is one that the pattern subscribes to, as the server itself decides it (its
// stringmatchlen): * is any number of bytes, ? is one, [abc] and [a-z] one of these, [^a] one that is none of these, and
// a backslash takes the special meaning of what follows it. What the server makes of a pattern that is not finished is
// kept, too: an open [ ends with the pattern, and a last backslash stands for itself.
func matches(pattern, name string) bool {
	// Where a part of the pattern behind a * has met no place in the name, no earlier * needs to look for another one.
	star, again := -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			for p < len(pattern) && pattern[p] == '*' {
				p++
			}
			if p == len(pattern) {
				return true
			}
			star, again = p, n
			continue
		}
		if p < len(pattern) {
			if next, ok := matchByte(pattern, p, name[n]); ok {
				p, n = next, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		again++
		p, n = star, again
	}
	// The empty name is matched by the empty pattern alone.
	for len(name) > 0 && p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte compares one byte with the element of the pattern that begins at p, which is not a *. It returns where the
// next element begins.
func matchByte(pattern string, p int, b byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, b)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == b
}

// matchClass compares one byte with the class whose first byte behind the bracket is at p.
func matchClass(pattern string, p int, b byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == b
		case p+2 < len(pattern) && pattern[p+1] == '-':
			// The server compares signed bytes, and takes the ends in either order.
			low, high := int8(pattern[p]), int8(pattern[p+2]) //nolint:gosec // signed on purpose
			if low > high {
				low, high = high, low
			}
			ok = ok || low <= int8(b) && int8(b) <= high //nolint:gosec // as above
			p += 2
		default:
			ok = ok || pattern[p] == b
		}
	}
	return min(p+1, len(pattern)), ok != not
}

var globEscapes = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// globLiteral is the pattern that matches the name alone.
func globLiteral(name string) string { return globEscapes.Replace(name) }
