package directive

import (
	"bytes"
	"go/token"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
)

// Mentions reports whether src may hold a directive or something that was meant to be one. It looks at bytes alone, so
// that files which have nothing to do with this tool are never parsed.
func Mentions(src []byte) bool {
	for rest := src; ; {
		i := bytes.IndexByte(rest, '/')
		if i < 0 || i+1 >= len(rest) {
			return false
		}
		rest = rest[i+1:]
		if rest[0] != '/' && rest[0] != '*' {
			continue
		}
		body := bytes.TrimLeft(rest[1:], "/"+blanks)
		if _, ok := readHead(string(body[:min(len(body), maxHead)])); ok {
			return true
		}
	}
}

const (
	blanks   = " \t\r\n"
	brackets = "(){}[]:,;"

	// maxHead is more than the beginning of any comment that is meant as a directive.
	maxHead = 64
)

// head is the beginning of a comment that may be meant as a directive: tool, separator, verb.
type head struct {
	marker, tool, separator, verb string
	// length is where the arguments begin.
	length int
}

// readHead reads the beginning of a comment whose slashes and blanks are cut away. It is true for everything that
// nearMiss goes on to look at.
func readHead(body string) (head, bool) {
	rest := body[:min(len(body), maxHead)]
	take := func(in func(c byte) bool) string {
		n := 0
		for n < len(rest) && in(rest[n]) {
			n++
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	var h head
	h.marker = take(func(c byte) bool { return strings.IndexByte("+@!#", c) >= 0 })
	h.tool = take(isLetter)
	if !meansTool(h.tool) {
		return h, false
	}
	h.separator = take(func(c byte) bool { return strings.IndexByte(":.-_/ \t", c) >= 0 })
	h.verb = take(isLetter)
	h.length = len(h.marker) + len(h.tool) + len(h.separator) + len(h.verb)
	return h, strings.Contains(h.separator, ":") || meansVerb(h.verb)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// meansTool accepts one slip in the name, and two where it is not shorter than that.
func meansTool(word string) bool {
	word = strings.ToLower(word)
	return word == tool || len(word) >= len(tool)-1 && len(word) <= len(tool)+1 && distance(word, tool) <= 2
}

func meansVerb(word string) bool {
	word = strings.ToLower(word)
	return strings.HasPrefix(word, "subscri") || len(word) >= len(verb)-2 && len(word) <= len(verb)+2 && distance(word, verb) <= 2
}

// nearMiss reports a comment that Go does not take for a directive although its author did. Prose that happens to begin
// with the words is let through: what follows must be keys and values, or nothing at all.
func nearMiss(pos token.Pos, text string) (Problem, bool) {
	body, block := strings.CutPrefix(text, "/*")
	if block {
		body = strings.TrimLeft(strings.TrimSuffix(body, "*/"), blanks)
		body, _, _ = strings.Cut(body, "\n")
	} else {
		body = strings.TrimPrefix(text, "//")
	}
	body = strings.TrimPrefix(body, "/")
	detached := strings.TrimLeft(body, blanks)
	h, ok := readHead(detached)
	if !ok {
		return Problem{}, false // also a comment about a directive: //stream:subscriber behind other slashes
	}
	args := detached[h.length:]
	if args != "" && strings.IndexByte(blanks+brackets, args[0]) < 0 {
		return Problem{}, false
	}
	args = strings.Trim(args, blanks)
	if args != "" && strings.IndexByte(brackets, args[0]) >= 0 {
		args = strings.Trim(args, blanks+brackets)
	}
	exact := strings.EqualFold(h.tool, tool) && strings.TrimSpace(h.separator) == ":"
	switch {
	case exact && meansVerb(h.verb) && (args == "" || strings.Contains(args, "=") || startsWithFlag(args)):
	case exact && h.separator == ":" && startsWithStructure(args):
	case meansVerb(h.verb) && holdsKey(args) && (len(detached) == len(body) || !strings.ContainsAny(h.separator, " \t")):
	default:
		return Problem{}, false
	}
	e := Problem{
		Code: diag.NearMiss, Pos: pos, End: pos + token.Pos(len(text)),
		Message: "this is a comment to Go, not a directive, which begins with " + Spelling + ", in lower case and without blanks",
		Suggest: strings.TrimSpace(Spelling + " " + args),
	}
	if block {
		e.Message = "this is a comment to Go, not a directive, which is a // comment of its own"
	}
	if !strings.Contains(text, "\n") {
		e.Edit = &Edit{e.Pos, e.End, e.Suggest}
	}
	return e, true
}

// startsWithStructure reports whether the first argument says what to read.
func startsWithStructure(args string) bool {
	name, _, ok := strings.Cut(args, "=")
	k, known := findKey(strings.ToLower(name))
	return ok && known && k.structure
}

func startsWithFlag(args string) bool {
	name, _, _ := strings.Cut(args, " ")
	k, known := findKey(name)
	return known && k.flag
}

// holdsKey reports whether any of the arguments is a key with its value.
func holdsKey(args string) bool {
	return slices.ContainsFunc(strings.Fields(args), func(arg string) bool {
		name, _, ok := strings.Cut(strings.Trim(arg, "\"`"), "=")
		_, known := findKey(strings.ToLower(name))
		return ok && known
	})
}
