// Package directive reads and writes the text of one //stream:subscriber line. It is pure syntax: it knows no files, no
// types and no functions, and reports every problem at the position of the token that has it.
package directive

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode"
)

const (
	tool   = "stream"
	verb   = "subscriber"
	prefix = "//" + tool + ":"

	// Spelling is how every directive begins.
	Spelling = prefix + verb
)

// Directive is one //stream:subscriber line that was understood.
type Directive struct {
	// Pos is the position of the slashes.
	Pos token.Pos
	Subscriber

	at map[string]token.Pos
}

// KeyPos returns the position of the token that gives key, and the directive's own where no token does.
func (d Directive) KeyPos(key string) token.Pos {
	if pos, ok := d.at[key]; ok {
		return pos
	}
	return d.Pos
}

// Error is one problem of a directive. Pos lies inside the comment.
type Error struct {
	Pos     token.Pos
	Message string
}

// Error returns the message alone: only who knows the file set can print the position.
func (e Error) Error() string { return e.Message }

// Parse reads the comment text, slashes included, that begins at pos. ours is false where the comment is neither a
// directive of this tool nor meant to be one; everything else is zero then. Where errs is not empty, the directive is
// not to be used.
func Parse(pos token.Pos, text string) (d Directive, errs []Error, ours bool) {
	line, ok := ast.ParseDirective(pos, text)
	if !ok || line.Tool != tool {
		if message := nearMiss(text); message != "" {
			return Directive{Pos: pos}, []Error{{pos, message}}, true
		}
		return Directive{}, nil, false
	}
	if line.Name != verb {
		message := fmt.Sprintf("unknown directive %s%s: the one that exists is %s", prefix, line.Name, Spelling)
		return Directive{Pos: pos}, []Error{{pos + token.Pos(len(prefix)), message}}, true
	}
	p := parser{base: pos, text: text, d: Directive{Pos: pos, at: map[string]token.Pos{}}}
	p.parse(&line)
	return p.d, p.errs, true
}

// Mentions reports whether src may hold a directive or something that was meant to be one. It looks at bytes alone, so
// that files which have nothing to do with this tool are never parsed.
func Mentions(src []byte) bool {
	for rest := src; ; {
		i := bytes.IndexByte(rest, ':')
		if i < 0 {
			return false
		}
		head := bytes.TrimRight(rest[:i], " \t")
		if n := len(head) - len(tool); n >= 0 && strings.EqualFold(string(head[n:]), tool) {
			head = bytes.TrimRight(head[:n], " \t")
			if bytes.HasSuffix(head, []byte("//")) || bytes.HasSuffix(head, []byte("/*")) {
				return true
			}
		}
		rest = rest[i+1:]
	}
}

// nearMiss returns what is wrong with a comment that Go does not take for a directive although its author did, and ""
// for an ordinary comment. Prose that happens to begin with the words is let through: what follows must look like a key
// and its value, or be nothing at all.
func nearMiss(text string) string {
	body, block := strings.CutPrefix(text, "/*")
	if block {
		body = strings.TrimSuffix(body, "*/")
	} else {
		body = strings.TrimPrefix(text, "//")
	}
	head, rest, ok := strings.Cut(body, ":")
	if !ok || !strings.EqualFold(strings.TrimSpace(head), tool) {
		return ""
	}
	rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	word, args := rest, ""
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		word, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	if !strings.HasPrefix(strings.ToLower(word), "subscri") || args != "" && !strings.Contains(args, "=") {
		return ""
	}
	if block {
		return fmt.Sprintf("a directive is a // comment of its own: write %s", strings.TrimSpace(Spelling+" "+args))
	}
	return fmt.Sprintf("this is a comment to Go, not a directive: write %s, in lower case and without blanks", Spelling)
}
