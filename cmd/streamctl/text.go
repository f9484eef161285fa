package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// cellBytes is how much of a text a table shows.
	cellBytes = 60
	// shownBytes is how much of a text is shown where it stands alone.
	shownBytes = 4 << 10
)

// cell is a text on one line of a table: quoted where a terminal would not show it as it is, cut where it is long.
func cell(text string) string {
	short := cut(text, cellBytes)
	if !printable(short, "") {
		short = strconv.Quote(short)
	}
	return short + note(text, cellBytes)
}

// shown is a text that stands alone, with its line ends. Bytes that a terminal would not show as they are are quoted; what is
// longer than most is cut, with a note. most 0 is all.
func shown(text string, most int) string {
	short := text
	if most > 0 {
		short = cut(text, most)
	}
	if !printable(short, "\n\t") {
		short = strconv.Quote(short)
	}
	return short + note(text, most)
}

func note(text string, most int) string {
	if most == 0 || len(text) <= most {
		return ""
	}
	return fmt.Sprintf("… (%d bytes)", len(text))
}

// cut returns at most so many bytes, and no part of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	short := text[:most]
	for i := 1; i < utf8.UTFMax && i <= len(short); i++ {
		if c := short[len(short)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(short[len(short)-i:]) {
				short = short[:len(short)-i]
			}
			break
		}
	}
	return short
}

// printable tells whether a terminal shows the text as it is. What it might obey (escape sequences, marks that turn the
// direction of writing) is not printable.
func printable(text, besides string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(besides, r) }) < 0
}

// harmless is what is told a person, names and errors of the server among it, without what a terminal might obey.
func harmless(text string) string {
	if printable(text, "\n\t") {
		return text
	}
	var out strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if quoted := strconv.Quote(strings.TrimSuffix(line, "\n")); !printable(line, "\n\t") {
			line = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + line[len(strings.TrimSuffix(line, "\n")):]
		}
		out.WriteString(line)
	}
	return out.String()
}

// bytesJSON is a text as JSON: a string, or {"base64": …} where it is not UTF-8.
type bytesJSON []byte

// MarshalJSON keeps every byte.
func (b bytesJSON) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return marshal(string(b))
	}
	return marshal(map[string][]byte{"base64": b})
}

// marshal writes JSON on one line, without what would make it fit for HTML.
func marshal(v any) ([]byte, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(text.String(), "\n")), nil
}

// instant is a time for a table, in UTC.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// instantJSON is a time for a program, nil for none.
func instantJSON(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z")
	return &text
}

// span is a duration that one can take in: its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, 24*time.Hour, "d", time.Hour, "h")
}

// units is a duration in a large unit and a small one, which is left out where it is none.
func units(d, large time.Duration, l string, small time.Duration, s string) string {
	text := strconv.FormatInt(int64(d/large), 10) + l
	if rest := d % large / small; rest > 0 {
		text += strconv.FormatInt(int64(rest), 10) + s
	}
	return text
}

// plural is a number and what it counts.
func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// or is a text, or a dash where there is none.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
