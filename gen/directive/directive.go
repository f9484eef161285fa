// Package directive reads and writes the text of one //stream:subscriber line. It is pure syntax: it knows no files, no
// types and no functions, and reports every problem at the position of the token that has it.
package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
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

	at, end map[string]token.Pos
}

// KeyPos returns the position of the token that gives key, and the directive's own where no token does.
func (d Directive) KeyPos(key string) token.Pos {
	if pos, ok := d.at[key]; ok {
		return pos
	}
	return d.Pos
}

// KeyEnd returns where that token ends, and the end of the directive's name where there is none.
func (d Directive) KeyEnd(key string) token.Pos {
	if end, ok := d.end[key]; ok {
		return end
	}
	return d.Pos + token.Pos(len(Spelling))
}

// Problem is one thing that is wrong with a directive.
type Problem struct {
	Code diag.Code
	// Pos lies inside the comment, and so does End, which is behind what is wrong.
	Pos, End token.Pos
	Message  string
	// Suggest is the nearest valid spelling, "" where none is near.
	Suggest string
	// Edit mends it, nil where it takes a person to know what was meant.
	Edit *Edit
}

// Edit replaces the text from Pos up to End.
type Edit struct {
	Pos, End token.Pos
	New      string
}

// Parse reads the comment text, slashes included, that begins at pos. ours is false where the comment is neither a
// directive of this tool nor meant to be one; everything else is zero then. Where errs is not empty, the directive is
// not to be used.
func Parse(pos token.Pos, text string) (d Directive, errs []Problem, ours bool) {
	line, ok := ast.ParseDirective(pos, text)
	if !ok || line.Tool != tool {
		if e, meant := nearMiss(pos, text); meant {
			return Directive{Pos: pos}, []Problem{e}, true
		}
		return Directive{}, nil, false
	}
	if line.Name != verb {
		return Directive{Pos: pos}, []Problem{unknownVerb(pos, &line)}, true
	}
	p := parser{base: pos, text: text, d: Directive{Pos: pos, at: map[string]token.Pos{}, end: map[string]token.Pos{}}}
	p.parse(&line)
	return p.d, p.errs, true
}

func unknownVerb(pos token.Pos, line *ast.Directive) Problem {
	at := pos + token.Pos(len(prefix))
	e := Problem{
		Code: diag.UnknownVerb, Pos: at, End: at + token.Pos(len(line.Name)),
		Message: fmt.Sprintf("unknown directive %s%s%s: the one that exists is %s", prefix, clip(line.Name), disguise(line.Name), Spelling),
	}
	rest, glued := strings.CutPrefix(line.Name, verb)
	args := strings.Trim(rest, brackets+"=")
	switch {
	case glued && args != rest && line.Args == "": // subscriber(stream=a)
		e.suggest(strings.TrimSpace(verb + " " + args))
	case glued && args != "": // subscriber(stream=a group=b)
		e.Suggest = verb
	case meansVerb(plainly(line.Name)):
		e.suggest(verb)
	}
	return e
}
