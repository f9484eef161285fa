package dispatch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The limits of the texts that travel with a message, in bytes.
const (
	maxDetail      = 8 << 10
	maxError       = 1 << 10
	maxHistoryLine = 200
)

// errorText returns the error's text. A cause whose Error method panics gets a text that says so: describing a failure
// must not become a second one.
func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T, whose Error method panicked: %v", err, p)
		}
	}()
	return err.Error()
}

// shorten returns s as valid UTF-8 of at most limit bytes, its end cut off where it is longer.
func shorten(s string, limit int) string {
	s = s[:min(len(s), limit+utf8.UTFMax)]
	return head(strings.ToValidUTF8(s, "\uFFFD"), limit, "…")
}

// abridge returns s as valid UTF-8 of at most limit bytes. Where it is longer the middle is left out: the head says
// what went wrong and the tail of a stack where it began.
func abridge(s string, limit int) string {
	const mark = "\n… (shortened) …\n"
	if len(s) > 2*limit {
		s = s[:limit] + s[len(s)-limit:]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	half := (limit - len(mark)) / 2
	tail := s[len(s)-half:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head(s, half, "") + mark + tail
}

// head returns at most limit bytes of valid UTF-8, ending in mark where something was cut off.
func head(s string, limit int, mark string) string {
	if len(s) <= limit {
		return s
	}
	s = s[:limit-len(mark)]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + mark
}

// oneLine replaces everything that some reader takes for the end of a line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
			return ' '
		}
		return r
	}, s)
}
