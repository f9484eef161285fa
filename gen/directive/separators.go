package directive

import (
	"go/ast"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
)

// separators reports a token that goes on where another one was meant to begin: behind a comma, a semicolon and the
// like, or behind nothing at all.
func (p *parser) separators(arg ast.DirectiveArg) bool {
	name, value, ok := strings.Cut(arg.Arg, "=")
	at := nextKey(value)
	trailing := strings.TrimRight(value, ",;") != value
	if !ok || at < 0 && !trailing {
		return false
	}
	quoted := clip(strconv.Quote(arg.Arg))
	var e *Problem
	if trailing || at > 0 && strings.IndexByte(",;", value[at-1]) >= 0 {
		e = p.found(diag.Separator, arg.Pos, "blanks separate the keys, not commas or semicolons; if it belongs to the value, quote the token: %s", quoted)
	} else {
		e = p.found(diag.Separator, arg.Pos, "no blank before the next key; if it belongs to the value, quote the token: %s", quoted)
	}
	if at != 0 {
		e.suggest(name + "=" + splitAtKeys(value))
	}
	return true
}

const betweenKeys = ",;&|"

// nextKey returns where within an unquoted value another key with its value begins, or a flag behind a separator; -1
// where none does.
func nextKey(value string) int {
	for i := range value {
		for _, k := range keys {
			rest, ok := strings.CutPrefix(value[i:], k.name)
			switch {
			case !ok:
			case !k.flag && strings.HasPrefix(rest, "="),
				k.flag && i > 0 && isBetween(value[i-1]) && (rest == "" || isBetween(rest[0])):
				return i
			}
		}
	}
	return -1
}

func isBetween(c byte) bool { return strings.IndexByte(betweenKeys, c) >= 0 }

// splitAtKeys puts blanks where a key follows, in the place of a separator, and drops those at the end.
func splitAtKeys(value string) string {
	var b strings.Builder
	for {
		at := nextKey(value)
		if at <= 0 {
			b.WriteString(strings.TrimRight(value, ",;"))
			return b.String()
		}
		end := at + strings.IndexAny(value[at:]+"=", "="+betweenKeys)
		b.WriteString(strings.TrimRight(value[:at], betweenKeys) + " " + value[at:end])
		value = value[end:]
	}
}
