package directive

import (
	"bytes"
	"go/token"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/gen/diag"
)

// Mentions reports whether src may hold a directive or something that was meant to be one. It looks at bytes alone, so
// that files which have nothing to do with this tool are never parsed.
func Mentions(src []byte) bool {
	begins := func(rest []byte, cut func(r rune) bool) bool {
		_, ok := readHead(strings.TrimLeftFunc(string(rest[:min(len(rest), maxHead)]), cut))
		return ok
	}
	nothing := func(rune) bool { return false }
	margin := func(r rune) bool { return r == '/' || r == '*' || isBlank(r) }
	for rest := src; ; {
		i := bytes.IndexAny(rest, "/\n")
		if i < 0 || i+1 >= len(rest) {
			return false
		}
		newline := rest[i] == '\n'
		rest = rest[i+1:]
		switch {
		case newline: // within a block comment, where a star may stand before the line
			if star := bytes.TrimLeft(rest, " \t"); begins(rest, nothing) || bytes.HasPrefix(star, []byte("*")) && begins(star, margin) {
				return true
			}
		case (rest[0] == '/' || rest[0] == '*') && begins(rest[1:], margin):
			return true
		}
	}
}

const (
	brackets = "(){}[]:,;"

	// maxHead is more than the beginning of any comment that is meant as a directive.
	maxHead = 128
)

// isBlank is for what stands between slashes and words, and is not seen there.
func isBlank(r rune) bool { return unicode.IsSpace(r) || isInvisible(r) }

// head is the beginning of a comment that may be meant as a directive: tool, separator, verb.
type head struct {
	marker, tool, separator, verb string
	// length is where the arguments begin.
	length int
}

// readHead reads the beginning of a comment whose slashes and blanks are cut away, by what its characters look like. It
// is true for everything that nearMiss goes on to look at.
func readHead(body string) (head, bool) {
	rest := body[:min(len(body), maxHead)]
	take := func(in func(c byte) bool) string {
		var taken []byte
		for rest != "" {
			r, size := utf8.DecodeRuneInString(rest)
			if c := plain(r); in(c) {
				taken = append(taken, c)
			} else if !isInvisible(r) {
				break
			}
			rest = rest[size:]
		}
		return string(taken)
	}
	var h head
	h.marker = take(func(c byte) bool { return strings.IndexByte("+@!#", c) >= 0 })
	h.tool = take(isLetter)
	if strings.EqualFold(h.tool, verb) { // //subscriber stream=a
		h.tool, h.verb = "", h.tool
		h.length = min(len(body), maxHead) - len(rest)
		return h, startsWithStructure(strings.TrimLeftFunc(rest, isBlank))
	}
	if !meansTool(h.tool) {
		return h, false
	}
	h.separator = take(func(c byte) bool { return strings.IndexByte(":.-_/ \t", c) >= 0 })
	h.verb = take(isLetter)
	h.length = min(len(body), maxHead) - len(rest)
	return h, strings.Contains(h.separator, ":") || meansVerb(h.verb)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// meansTool accepts one slip in the name, two where it is not shorter than that, and what else this library is called.
func meansTool(word string) bool {
	word = strings.ToLower(word)
	return word == tool || word == "millrace" || word == "streamgen" || len(word) >= len(tool)-1 && len(word) <= len(tool)+1 && distance(word, tool) <= 2
}

func meansVerb(word string) bool {
	word = strings.ToLower(word)
	return strings.HasPrefix(word, "subscri") || len(word) >= len(verb)-2 && len(word) <= len(verb)+2 && distance(word, verb) <= 2
}

// nearMiss reports a comment that Go does not take for a directive although its author did. Prose that happens to begin
// with the words is let through: what follows must be keys and values, or nothing at all. So is what stands behind
// slashes of its own, as in // //stream:subscriber: it is about a directive, or one that was switched off.
func nearMiss(pos token.Pos, text string) (Problem, bool) {
	e := Problem{Code: diag.NearMiss, Pos: pos, End: pos + token.Pos(len(text))}
	if inner, block := strings.CutPrefix(text, "/*"); block {
		e.Message = "this is a comment to Go, not a directive, which is a // comment of its own"
		inner = strings.TrimLeftFunc(strings.TrimSuffix(inner, "*/"), isBlank)
		for line := range strings.Lines(inner) { // an indented one is an example
			if star, ok := strings.CutPrefix(strings.TrimLeftFunc(line, isBlank), "*"); ok {
				line = strings.TrimPrefix(star, " ")
			}
			if e.Suggest = missed(line, true); e.Suggest != "" {
				break
			}
		}
	} else {
		e.Message = "this is a comment to Go, not a directive, which begins with " + Spelling + ", in lower case and without blanks"
		body := strings.TrimPrefix(strings.TrimPrefix(text, "//"), "/")
		detached := strings.TrimLeftFunc(body, isBlank)
		e.Suggest = missed(detached, len(detached) == len(body))
	}
	if body := strings.TrimLeft(text, "/*"); e.Suggest != "" {
		e.Message += disguise(body[:min(len(body), len(Spelling))])
	}
	if e.Suggest != "" && !strings.Contains(text, "\n") {
		e.Edit = &Edit{e.Pos, e.End, e.Suggest}
	}
	return e, e.Suggest != ""
}

// missed returns the directive that the line was meant as, "" where it is prose. attached says that nothing stands
// between it and the slashes, which prose seldom does.
func missed(line string, attached bool) string {
	h, ok := readHead(line)
	if !ok {
		return ""
	}
	isBracket := func(r rune) bool { return strings.ContainsRune(brackets, r) }
	args := line[h.length:]
	if first, _ := utf8.DecodeRuneInString(args); args != "" && !isBlank(first) && !isBracket(first) {
		return ""
	}
	args = strings.TrimFunc(args, isBlank)
	if args != "" && isBracket(rune(args[0])) {
		args = strings.TrimFunc(args, func(r rune) bool { return isBlank(r) || isBracket(r) })
	}
	exact := strings.EqualFold(h.tool, tool) && strings.TrimSpace(h.separator) == ":"
	switch {
	case h.tool == "" && !attached && h.marker == "":
		return ""
	case exact && meansVerb(h.verb) && (args == "" || startsWithToken(args)):
	case exact && h.separator == ":" && startsWithStructure(args):
	case meansVerb(h.verb) && holdsKey(args) && (attached || startsWithToken(args) && !strings.ContainsAny(h.separator, " \t")):
	default:
		return ""
	}
	return strings.TrimSpace(Spelling + " " + args)
}

// startsWithToken reports whether the first argument is a key with its value or a flag.
func startsWithToken(args string) bool {
	first := args[:wordLength(args)]
	k, known := findKey(first)
	return strings.Contains(first, "=") || strings.HasPrefix(first, `"`) || strings.HasPrefix(first, "`") || known && k.flag
}

// startsWithStructure reports whether the first argument says what to read.
func startsWithStructure(args string) bool {
	name, _, ok := strings.Cut(args, "=")
	k, known := findKey(strings.ToLower(name))
	return ok && known && k.structure
}

// holdsKey reports whether any of the arguments is a key with its value.
func holdsKey(args string) bool {
	return slices.ContainsFunc(strings.Fields(args), func(arg string) bool {
		name, _, ok := strings.Cut(strings.Trim(arg, "\"`"), "=")
		_, known := findKey(strings.ToLower(name))
		return ok && known
	})
}
