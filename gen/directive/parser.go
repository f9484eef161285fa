package directive

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
		if beginsNote(arg.Arg) {
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
	switch {
	case !known && !hasValue:
		return p.strayWords(i), false
	case known && !k.flag && strings.HasPrefix(value, "=") && !p.isQuoted(arg.Pos):
		p.keyed(k, arg.Pos)
		p.found(diag.BadToken, arg.Pos, "two equals signs: write %s; if one belongs to the value, quote the token: %s", k.usage, clip(strconv.Quote(arg.Arg))).
			suggestToken(name + "=" + strings.TrimLeft(value, "="))
		return 1, false
	}
	return 1, p.keyValue(arg, k, known, name, value, hasValue)
}

// keyed records that the token at pos gives the key, whatever is wrong with it.
func (p *parser) keyed(k key, pos token.Pos) {
	p.d.at[k.name], p.d.end[k.name] = pos, p.tokenEnd(pos)
	if k.structure && p.structure == "" {
		p.structure = k.name
	}
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
		p.found(diag.BadToken, arg.Pos, "%q has no key: write key=value, such as stream=KEY", clip(arg.Arg))
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
		if bad := cmp.Or(k.set(&p.d.Subscriber, value), p.unseen(arg.Pos, value)); bad != nil {
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
		p.keyed(k, arg.Pos)
	}
	return len(p.errs) == before
}

// unseen refuses a value with a character in it that nobody sees, unless it is written as an escape.
func (p *parser) unseen(pos token.Pos, value string) *badValue {
	raw := p.text[pos-p.base : p.tokenEnd(pos)-p.base]
	i := strings.IndexFunc(raw, isInvisible)
	if i < 0 {
		return nil
	}
	r, _ := utf8.DecodeRuneInString(raw[i:])
	return &badValue{
		code:    diag.BadText,
		message: fmt.Sprintf("the value has %U in it, which nobody sees: remove it, or quote the token and write it as \\u%04x", r, r),
		instead: strings.Map(func(r rune) rune {
			if isInvisible(r) {
				return -1
			}
			return r
		}, value),
	}
}

func (p *parser) unknownKey(arg ast.DirectiveArg, name string) {
	e := p.found(diag.UnknownKey, arg.Pos, "unknown key %q%s", clip(name), disguise(name))
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
	if n := p.otherEquals(i); n > 0 {
		return n
	}
	e := p.found(diag.BadToken, arg.Pos, "unknown token %q: a directive consists of key=value tokens, and a token with blanks is quoted whole", clip(arg.Arg))
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

// otherEquals reports a key whose value is separated from it in another way, such as stream: a or --stream a, and returns
// how many tokens they are; 0 where the token at i is nothing of the kind.
func (p *parser) otherEquals(i int) int {
	arg := p.args[i]
	at := strings.IndexAny(arg.Arg, ":＝：")
	if at < 0 {
		at = len(arg.Arg)
	}
	k, known := findKey(normal(arg.Arg[:at]))
	if !known || k.flag {
		return 0
	}
	_, size := utf8.DecodeRuneInString(arg.Arg[at:])
	value, n := arg.Arg[at+size:], 1
	if value == "" && i+1 < len(p.args) && p.isStrayWord(p.args[i+1]) {
		value, n = p.args[i+1].Arg, 2
	}
	p.keyed(k, arg.Pos)
	e := p.found(diag.BadToken, arg.Pos, "%q is no key=value: write %s", clip(arg.Arg), k.usage)
	e.End = p.tokenEnd(p.args[i+n-1].Pos)
	e.suggestToken(k.name + "=" + value)
	return n
}

func (p *parser) isStrayWord(arg ast.DirectiveArg) bool {
	if p.isQuoted(arg.Pos) || beginsNote(arg.Arg) || strings.ContainsAny(arg.Arg, "=:\"`") {
		return false
	}
	_, known := findKey(arg.Arg)
	return !known && nearest(arg.Arg, flagNames()) == ""
}

// beginsNote reports whether a token begins a comment, as this or another language writes it.
func beginsNote(arg string) bool {
	return strings.HasPrefix(arg, "//") || strings.HasPrefix(arg, "/*") || slices.Contains([]string{"#", "--", "–", "—"}, arg)
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
	case !k.flag && i+1 < len(p.args) && p.isStrayWord(p.args[i+1]): // key value
		value, n = next(1), 2
	default:
		return 0
	}
	pos := p.args[i].Pos
	p.keyed(k, pos)
	switch {
	case k.flag:
		p.flagValue(pos, name, value)
	case !hasValue && !strings.HasPrefix(next(1), "="):
		p.found(diag.MissingValue, pos, "%s needs a value: write %s", name, k.usage)
	default:
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
