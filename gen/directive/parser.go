package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parser reads the tokens after //stream:subscriber.
type parser struct {
	base token.Pos
	text string
	d    Directive
	errs []Error

	// structure is the first of the keys that say what is read.
	structure string
}

func (p *parser) errorf(pos token.Pos, format string, args ...any) {
	p.errs = append(p.errs, Error{pos, fmt.Sprintf(format, args...)})
}

// raw returns the comment's text from pos on.
func (p *parser) raw(pos token.Pos) string { return p.text[pos-p.base:] }

func (p *parser) parse(line *ast.Directive) {
	args, err := line.ParseArgs()
	if err != nil {
		p.brokenQuote(line)
		return
	}
	complete := true
	skipTo := token.NoPos
	for i, arg := range args {
		if arg.Pos < skipTo {
			continue
		}
		if quoted := strings.HasPrefix(p.raw(arg.Pos), `"`) || strings.HasPrefix(p.raw(arg.Pos), "`"); !quoted {
			if strings.HasPrefix(arg.Arg, "//") || strings.HasPrefix(arg.Arg, "/*") {
				p.errorf(arg.Pos, "a note cannot follow the directive: write it on a line of its own above")
				break
			}
			if strings.HasPrefix(arg.Arg, "=") && i > 0 {
				continue // reported with the key before it
			}
			if end, stray := p.strayQuote(arg); stray {
				complete = false
				skipTo = end
				continue
			}
			if key, value, ok := strings.Cut(arg.Arg, "="); ok && commaIn(value) {
				complete = false
				p.errorf(arg.Pos, "blanks separate the keys, not commas or semicolons; if it belongs to the value, quote the token: %s", strconv.Quote(key+"="+value))
				continue
			}
		}
		detached := i+1 < len(args) && strings.HasPrefix(args[i+1].Arg, "=")
		if detached {
			skipTo = args[i+1].Pos + 1
			if args[i+1].Arg == "=" && i+2 < len(args) {
				skipTo = args[i+2].Pos + 1
			}
		}
		if !p.token(arg, detached) {
			complete = false
		}
	}
	if complete {
		p.combine()
	}
}

// token takes one token, and reports whether nothing about it is wrong.
func (p *parser) token(arg ast.DirectiveArg, detached bool) bool {
	before := len(p.errs)
	name, value, hasValue := strings.Cut(arg.Arg, "=")
	k, known := findKey(name)
	_, twice := p.d.at[name]
	switch {
	case name == "":
		p.errorf(arg.Pos, "%q has no key: write key=value, such as stream=KEY", arg.Arg)
	case !known:
		p.unknown(arg, name, hasValue)
	case k.flag && (hasValue || detached):
		p.errorf(arg.Pos, "%s takes no value: write %s alone", name, name)
	case detached && !hasValue:
		p.errorf(arg.Pos, "no blanks around the equals sign: write %s", k.usage)
	case twice:
		p.errorf(arg.Pos, "%s is given twice", name)
	case k.structure && p.structure != "":
		p.errorf(arg.Pos, "%s beside %s: a directive reads one structure; leave one out", name, p.structure)
	case !hasValue && !k.flag:
		p.errorf(arg.Pos, "%s needs a value: write %s", name, k.usage)
	case value == "" && !k.flag:
		p.errorf(arg.Pos, "%s is empty: write %s", name, k.usage)
	default:
		if err := k.set(&p.d.Subscriber, value); err != nil {
			p.errorf(arg.Pos, "%s: %v", name, err)
		}
	}
	if known {
		p.d.at[name] = arg.Pos
		if k.structure && p.structure == "" {
			p.structure = name
		}
	}
	return len(p.errs) == before
}

func (p *parser) unknown(arg ast.DirectiveArg, name string, hasValue bool) {
	if !hasValue {
		if key, value, ok := strings.Cut(name, ":"); ok {
			if k, known := findKey(key); known {
				p.errorf(arg.Pos, "%q is no key=value: write %s=%s", name, k.name, value)
				return
			}
		}
		p.errorf(arg.Pos, "unknown token %q%s: a directive consists of key=value tokens, and a token with blanks is quoted whole", name, didYouMean(name, keyNames()))
		return
	}
	p.errorf(arg.Pos, "unknown key %q%s", name, didYouMean(name, keyNames()))
}

// strayQuote reports a quote inside a token, with the spelling that was probably meant, and returns where the quoted
// text ends: the tokens in between are part of the same mistake.
func (p *parser) strayQuote(arg ast.DirectiveArg) (end token.Pos, stray bool) {
	i := strings.IndexAny(arg.Arg, "\"`")
	if key, value, ok := strings.Cut(arg.Arg, "="); ok && i < 0 && strings.HasPrefix(value, "'") {
		i = len(key) + 1
	}
	if i < 0 {
		return 0, false
	}
	rest := p.raw(arg.Pos + token.Pos(i))
	head := arg.Arg[:i]
	inner, length := "", 0
	if n := strings.IndexByte(rest[1:], rest[0]); n >= 0 {
		inner, length = rest[1:1+n], n+2
	} else {
		inner, length = strings.TrimRightFunc(rest[1:], unicode.IsSpace), len(rest)
	}
	p.errorf(arg.Pos, "a quote inside a token: quote the token as a whole, as in %s", strconv.Quote(head+inner))
	return arg.Pos + token.Pos(i+length), true
}

// brokenQuote reports the quoted token that go/ast refused without saying where it is.
func (p *parser) brokenQuote(line *ast.Directive) {
	rest := p.raw(line.ArgsPos)
	for {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		pos := p.base + token.Pos(len(p.text)-len(rest))
		if rest == "" {
			p.errorf(line.Slash, "a quoted token is broken")
			return
		}
		if rest[0] != '"' && rest[0] != '`' {
			i := strings.IndexFunc(rest, unicode.IsSpace)
			if i < 0 {
				i = len(rest)
			}
			if _, stray := p.strayQuote(ast.DirectiveArg{Arg: rest[:i], Pos: pos}); stray {
				return
			}
			rest = rest[i:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			p.errorf(pos, "a quoted token does not end, or holds an escape that Go does not know: write it like %s", `"stream=orders v2"`)
			return
		}
		rest = rest[len(quoted):]
		if r, _ := utf8.DecodeRuneInString(rest); rest != "" && !unicode.IsSpace(r) {
			p.errorf(pos, "a quote encloses a token as a whole and is followed by a blank: write it like %s", `"stream=orders v2"`)
			return
		}
	}
}

// commaIn reports whether an unquoted value looks as if commas or semicolons were meant to separate the keys.
func commaIn(value string) bool {
	if strings.HasSuffix(value, ",") || strings.HasSuffix(value, ";") {
		return true
	}
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' })[min(1, len(value)):] {
		if name, _, ok := strings.Cut(part, "="); ok {
			if _, known := findKey(name); known {
				return true
			}
		}
	}
	return false
}
