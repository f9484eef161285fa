package directive

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pasted text and keyboards for other scripts bring characters along that look like those of a directive, or like
// nothing at all. Go takes each of them for what it is, so that a directive becomes a comment and a key another one,
// with nothing to see.

// lookalikes are letters of the Cyrillic and the Greek script and, at the same index, what they look like.
var lookalikes, latin = []rune("аеорсухіјѕһԁктмьοραιτυνκ"), "aeopcyxijshdktmboraituvk"

// plain returns the ASCII character that r was meant as. It is unplain where there is none.
func plain(r rune) byte {
	const fullWidth = 0xFF01 - '!'
	switch {
	case r < utf8.RuneSelf:
		return byte(r)
	case unicode.IsSpace(r):
		return ' '
	case unicode.Is(unicode.Pd, r), r == '−':
		return '-'
	case '！' <= r && r <= '～':
		return byte(r - fullWidth)
	}
	for i, other := range lookalikes {
		if r == other {
			return latin[i]
		}
	}
	return unplain
}

// unplain is no ASCII character.
const unplain = 0xFF

// isInvisible reports whether r takes no place on the screen, as zero-width blanks and marks for the direction of text.
func isInvisible(r rune) bool { return r >= utf8.RuneSelf && unicode.Is(unicode.Cf, r) }

// plainly writes a word with what its characters were meant as, and without those that nobody sees.
func plainly(word string) string {
	return strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		if c := plain(r); c != unplain {
			return rune(c)
		}
		return r
	}, word)
}

// disguise says which character of a word is not what it looks like, for the word and what was meant look alike. It is
// empty where there is none.
func disguise(word string) string {
	for _, r := range word {
		switch c := plain(r); {
		case r < utf8.RuneSelf:
		case isInvisible(r):
			return fmt.Sprintf(" (with %U, which nobody sees)", r)
		case c != unplain:
			return fmt.Sprintf(" (with %U in the place of %q)", r, c)
		}
	}
	return ""
}

// closing are the quotes that end what the key begins with. Only the first two are quotes to Go.
var closing = map[rune]string{
	'"': `"`, '`': "`", '\'': "'",
	'“': "”“\"", '”': "”", '„': "“”", '‘': "’‘'", '’': "’", '«': "»", '»': "«",
}

// beginsQuoted reports whether an unquoted value begins as if it were quoted.
func beginsQuoted(value string) bool {
	first, _ := utf8.DecodeRuneInString(value)
	_, quote := closing[first]
	return quote
}

// clip keeps what a message repeats from the source to a length that can be read.
func clip(text string) string {
	const most = 80
	runes := []rune(text[:min(len(text), utf8.UTFMax*(most+1))])
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
