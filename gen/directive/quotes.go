package directive

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/gen/diag"
)

// strayQuote reports a quote inside a token, with the spelling that was probably meant, and returns where the quoted
// text ends: the tokens in between are part of the same mistake.
func (p *parser) strayQuote(arg ast.DirectiveArg) (end token.Pos, stray bool) {
	i := strings.IndexAny(arg.Arg, "\"`")
	if _, value, _ := strings.Cut(arg.Arg, "="); i < 0 && beginsQuoted(arg.Arg) {
		i = 0
	} else if i < 0 && beginsQuoted(value) {
		i = len(arg.Arg) - len(value)
	}
	if i < 0 {
		return 0, false
	}
	rest := p.raw(arg.Pos + token.Pos(i))
	head := arg.Arg[:i]
	quote, size := utf8.DecodeRuneInString(rest)
	inner, length := "", 0
	if n := strings.IndexAny(rest[size:], closing[quote]); n >= 0 {
		_, last := utf8.DecodeRuneInString(rest[size+n:])
		inner, length = rest[size:size+n], size+n+last
	} else {
		inner = strings.TrimRightFunc(rest[size:], unicode.IsSpace)
		length = size + len(inner)
	}
	length += wordLength(rest[length:])
	e := p.found(diag.BadQuote, arg.Pos, `a quote inside a token: a token with blanks is quoted as a whole, as in "stream=orders v2"`)
	e.End = arg.Pos + token.Pos(i+length)
	e.suggestToken(head + inner)
	return e.End, true
}

// brokenQuote reports the quoted token that go/ast refused without saying where it is.
func (p *parser) brokenQuote(line *ast.Directive) {
	rest := p.raw(line.ArgsPos)
	for {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		pos := p.base + token.Pos(len(p.text)-len(rest))
		if rest == "" {
			p.found(diag.BadQuote, line.Slash, "a quoted token is broken")
			return
		}
		if rest[0] != '"' && rest[0] != '`' {
			word := rest[:wordLength(rest)]
			if _, stray := p.strayQuote(ast.DirectiveArg{Arg: word, Pos: pos}); stray {
				return
			}
			rest = rest[len(word):]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			p.openQuote(pos, rest)
			return
		}
		rest = rest[len(quoted):]
		if r, _ := utf8.DecodeRuneInString(rest); rest != "" && !unicode.IsSpace(r) {
			e := p.found(diag.BadQuote, pos, "a quote encloses a token as a whole and is followed by a blank: write it like %s", `"stream=orders v2"`)
			e.End = pos + token.Pos(len(quoted)+wordLength(rest))
			name, _ := strconv.Unquote(quoted)
			if value, ok := strings.CutPrefix(rest, "="); ok { // "stream"=orders
				inner, err := strconv.QuotedPrefix(value)
				if err != nil {
					inner = value[:wordLength(value)]
				}
				e.End = pos + token.Pos(len(quoted)+len("=")+len(inner))
				if unquoted, err := strconv.Unquote(inner); err == nil {
					inner = unquoted
				}
				e.suggestToken(name + "=" + inner)
			}
			return
		}
	}
}

// openQuote reports a quote that does not end, or holds what Go does not know.
func (p *parser) openQuote(pos token.Pos, rest string) {
	e := p.found(diag.BadQuote, pos, "a quoted token does not end, or holds an escape that Go does not know: write it like %s", `"stream=orders v2"`)
	inner := strings.TrimRightFunc(rest[1:], unicode.IsSpace)
	e.End = pos + token.Pos(1+len(inner))
	if _, value, _ := strings.Cut(inner, "="); !strings.ContainsAny(value, "=\"`\\") {
		e.suggestToken(inner)
	}
}

// suggestToken suggests the token, quoted where it has to be, if it begins with a key.
func (e *Problem) suggestToken(token string) {
	name, value, _ := strings.Cut(token, "=")
	if k, known := findKey(name); known && !k.flag && value != "" {
		e.suggest(printToken(name, value))
	}
}

// wordLength returns how far it is to the next blank.
func wordLength(s string) int {
	if i := strings.IndexFunc(s, unicode.IsSpace); i >= 0 {
		return i
	}
	return len(s)
}
