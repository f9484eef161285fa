package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
)

// parser reads the tokens after //stream:subscriber.
type parser struct {
	base token.Pos
	text string
	d    Directive
	errs []Problem

	args []ast.DirectiveArg
	// structure is the first of the keys that say what is read.
	structure string
}

// found records a problem of the token at pos.
func (p *parser) found(code diag.Code, pos token.Pos, format string, args ...any) *Problem {
	p.errs = append(p.errs, Problem{Code: code, Pos: pos, End: p.tokenEnd(pos), Message: fmt.Sprintf(format, args...)})
	return &p.errs[len(p.errs)-1]
}

// suggest adds the spelling that mends the problem by standing where it stands.
func (e *Problem) suggest(spelling string) {
	if spelling != "" {
		e.Suggest, e.Edit = spelling, &Edit{e.Pos, e.End, spelling}
	}
}

// raw returns the comment's text from pos on.
func (p *parser) raw(pos token.Pos) string { return p.text[pos-p.base:] }

// tokenEnd returns where the token at pos ends; the directive itself is a token at its beginning.
func (p *parser) tokenEnd(pos token.Pos) token.Pos {
	raw := p.raw(pos)
	if quoted, err := strconv.QuotedPrefix(raw); err == nil {
		return pos + token.Pos(len(quoted))
	}
	return pos + token.Pos(wordLength(raw))
}

// isQuoted reports whether the token at pos is quoted as a whole.
func (p *parser) isQuoted(pos token.Pos) bool {
	raw := p.raw(pos)
	return raw != "" && (raw[0] == '"' || raw[0] == '`')
}

func (p *parser) parse(line *ast.Directive) {
	args, err := line.ParseArgs()
	if err != nil {
		p.brokenQuote(line)
		return
	}
	p.args = args
	complete := true
	for i := 0; i < len(args); {
		n, ok := p.token(i)
		complete = complete && ok
		i += n
	}
	if complete {
		p.combine()
	}
}

// token reads the token at index i. It returns how many tokens belong to it, those of the same mistake included, and
// whether nothing about it is wrong.
func (p *parser) token(i int) (n int, ok bool) {
	arg := p.args[i]
	if !p.isQuoted(arg.Pos) {
		if strings.HasPrefix(arg.Arg, "//") || strings.HasPrefix(arg.Arg, "/*") {
			return p.note(i), false
		}
		if end, stray := p.strayQuote(arg); stray {
			return p.until(i, end), false
		}
		if p.separators(arg) {
			return 1, false
		}
		if n := p.blanksAroundEquals(i); n > 0 {
			return n, false
		}
	}
	name, value, hasValue := strings.Cut(arg.Arg, "=")
	k, known := findKey(name)
	if !known && !hasValue {
		return p.strayWords(i), false
	}
	return 1, p.keyValue(arg, k, known, name, value, hasValue)
}

// until returns how many tokens from index i on begin before end.
func (p *parser) until(i int, end token.Pos) int {
	n := 1
	for i+n < len(p.args) && p.args[i+n].Pos < end {
		n++
	}
	return n
}

// keyValue reads a token that stands by itself.
func (p *parser) keyValue(arg ast.DirectiveArg, k key, known bool, name, value string, hasValue bool) bool {
	before := len(p.errs)
	_, twice := p.d.at[name]
	switch {
	case name == "":
		p.found(diag.BadToken, arg.Pos, "%q has no key: write key=value, such as stream=KEY", arg.Arg)
	case !known:
		p.unknownKey(arg, name)
	case k.flag && hasValue:
		p.flagValue(arg.Pos, name, value)
	case twice:
		p.found(diag.RepeatedKey, arg.Pos, "%s is given twice", name)
	case k.structure && p.structure != "":
		p.found(diag.TwoStructures, arg.Pos, "%s beside %s: a directive reads one structure; leave one out", name, p.structure)
	case !hasValue && !k.flag:
		p.found(diag.MissingValue, arg.Pos, "%s needs a value: write %s", name, k.usage)
	case value == "" && !k.flag:
		p.found(diag.MissingValue, arg.Pos, "%s is empty: write %s", name, k.usage)
	default:
		if bad := k.set(&p.d.Subscriber, value); bad != nil {
			e := p.found(bad.code, arg.Pos, "%s: %s", name, bad.message)
			if bad.instead != "" {
				e.Suggest = printToken(name, bad.instead)
				if bad.sure {
					e.suggest(e.Suggest)
				}
			}
		}
	}
	if known {
		p.d.at[name], p.d.end[name] = arg.Pos, p.tokenEnd(arg.Pos)
		if k.structure && p.structure == "" {
			p.structure = name
		}
	}
	return len(p.errs) == before
}

func (p *parser) unknownKey(arg ast.DirectiveArg, name string) {
	e := p.found(diag.UnknownKey, arg.Pos, "unknown key %q", name)
	e.Suggest = nearestKey(name)
	from := arg.Pos
	if p.isQuoted(from) {
		from++
	}
	if e.Suggest != "" && strings.HasPrefix(p.raw(from), name+"=") {
		e.Edit = &Edit{from, from + token.Pos(len(name)), e.Suggest}
	}
}

func (p *parser) flagValue(pos token.Pos, name, value string) {
	switch strings.ToLower(value) {
	case "false", "no", "off", "0":
		p.found(diag.FlagValue, pos, "%s takes no value: leave it out where it is not wanted", name)
	default:
		p.found(diag.FlagValue, pos, "%s takes no value: write %s alone", name, name).suggest(name)
	}
}

// strayWords reports what is neither a key with a value nor a flag. Behind a value it is most likely the rest of it,
// which blanks have cut off.
func (p *parser) strayWords(i int) int {
	arg := p.args[i]
	if key, value, ok := strings.Cut(arg.Arg, ":"); ok {
		if k, known := findKey(key); known && !k.flag {
			p.found(diag.BadToken, arg.Pos, "%q is no key=value", arg.Arg).suggest(printToken(k.name, value))
			return 1
		}
	}
	e := p.found(diag.BadToken, arg.Pos, "unknown token %q: a directive consists of key=value tokens, and a token with blanks is quoted whole", arg.Arg)
	if near := nearest(arg.Arg, flagNames()); near != "" {
		e.suggest(near)
		return 1
	}
	n := 1
	for i+n < len(p.args) && p.isStrayWord(p.args[i+n]) {
		n++
	}
	if i == 0 || p.isQuoted(p.args[i-1].Pos) {
		return n
	}
	name, value, _ := strings.Cut(p.args[i-1].Arg, "=")
	if k, known := findKey(name); known && k.takesBlanks {
		words := make([]string, n)
		for j := range words {
			words[j] = p.args[i+j].Arg
		}
		e.Suggest = printToken(name, value+" "+strings.Join(words, " "))
		e.Edit = &Edit{p.args[i-1].Pos, p.tokenEnd(p.args[i+n-1].Pos), e.Suggest}
	}
	return n
}

func (p *parser) isStrayWord(arg ast.DirectiveArg) bool {
	if p.isQuoted(arg.Pos) || strings.HasPrefix(arg.Arg, "//") || strings.ContainsAny(arg.Arg, "=:\"`") {
		return false
	}
	_, known := findKey(arg.Arg)
	return !known && nearest(arg.Arg, flagNames()) == ""
}

// note reports what follows the directive as a comment of its own. All the rest of the line is part of it.
func (p *parser) note(i int) int {
	e := p.found(diag.Note, p.args[i].Pos, "a note cannot follow the directive: write it on a line of its own above")
	e.End = p.base + token.Pos(len(p.text))
	last := p.base + token.Pos(len(Spelling))
	if i > 0 {
		last = p.tokenEnd(p.args[i-1].Pos)
	}
	e.Edit = &Edit{last, e.End, ""}
	return len(p.args) - i
}

// separators reports commas and semicolons that were meant to separate the keys.
func (p *parser) separators(arg ast.DirectiveArg) bool {
	key, value, ok := strings.Cut(arg.Arg, "=")
	if !ok || !commaIn(value) {
		return false
	}
	p.found(diag.Separator, arg.Pos, "blanks separate the keys, not commas or semicolons; if it belongs to the value, quote the token: %s",
		strconv.Quote(arg.Arg)).suggest(key + "=" + splitAtKeys(value))
	return true
}

// blanksAroundEquals reports a key, an equals sign and a value that are not written as one, and returns how many tokens
// they are; 0 where the tokens at i are nothing of the kind.
func (p *parser) blanksAroundEquals(i int) int {
	name, value, hasValue := strings.Cut(p.args[i].Arg, "=")
	k, known := findKey(name)
	next := func(n int) string {
		if i+n < len(p.args) {
			return p.args[i+n].Arg
		}
		return ""
	}
	var n int
	switch {
	case !known || hasValue && value != "":
		return 0
	case hasValue: // key= value
		if i+1 >= len(p.args) || k.flag || !p.isStrayWord(p.args[i+1]) {
			return 0
		}
		value, n = next(1), 2
	case next(1) == "=": // key = value
		value, n = next(2), min(3, len(p.args)-i)
	case strings.HasPrefix(next(1), "="): // key =value
		value, n = next(1)[1:], 2
	default:
		return 0
	}
	pos := p.args[i].Pos
	p.d.at[name] = pos
	if k.structure && p.structure == "" {
		p.structure = name
	}
	if k.flag {
		p.flagValue(pos, name, value)
	} else {
		p.found(diag.BadToken, pos, "no blanks around the equals sign: write %s", k.usage)
	}
	e := &p.errs[len(p.errs)-1]
	e.End = p.tokenEnd(p.args[i+n-1].Pos)
	switch {
	case e.Suggest != "": // a flag
		e.suggest(e.Suggest)
	case !k.flag && value != "":
		e.suggest(printToken(name, value))
	}
	return n
}

// commaIn reports whether an unquoted value looks as if commas or semicolons were meant to separate the keys.
func commaIn(value string) bool {
	if strings.HasSuffix(value, ",") || strings.HasSuffix(value, ";") {
		return true
	}
	parts := strings.FieldsFunc(value, isSeparator)
	return slices.ContainsFunc(parts[min(1, len(parts)):], beginsWithKey)
}

func isSeparator(r rune) bool { return r == ',' || r == ';' }

func beginsWithKey(part string) bool {
	name, _, ok := strings.Cut(part, "=")
	_, known := findKey(name)
	return ok && known
}

// splitAtKeys puts blanks where a key follows a separator, and drops those at the end.
func splitAtKeys(value string) string {
	value = strings.TrimRightFunc(value, isSeparator)
	var b strings.Builder
	for i, r := range value {
		if isSeparator(r) && beginsWithKey(value[i+1:]) {
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
