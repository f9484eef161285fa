package directive

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Subscriber is what one directive declares. The zero value of a field means that its key is absent.
type Subscriber struct {
	// Of these four, one is given.
	Stream  string
	List    string
	Channel string
	Pattern string

	Group    string
	Claim    time.Duration
	Reclaim  time.Duration
	Start    string
	DelaySet string
	DelayTTL time.Duration
	Task     string
	Foreign  bool
	Reliable bool
	Sharded  bool
	Codec    string
	Block    time.Duration
	Timeout  time.Duration
	Name     string
}

// String prints the directive in its canonical form: keys in the order of the documentation, tokens quoted where they
// have to be. Parsing it gives s again.
func (s Subscriber) String() string {
	var b strings.Builder
	b.WriteString(Spelling)
	for _, k := range keys {
		value := k.get(&s)
		switch {
		case value == "":
		case k.flag:
			b.WriteString(" " + k.name)
		default:
			b.WriteString(" " + printToken(k.name, value))
		}
	}
	return b.String()
}

func printToken(key, value string) string {
	plain := key + "=" + value
	needsQuotes := beginsQuoted(value) || strings.HasPrefix(value, "=") || strings.TrimRight(value, ",;") != value || nextKey(value) >= 0 || strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsSpace(r) || r == '"' || r == '`' || !strconv.IsPrint(r)
	})
	if needsQuotes {
		return strconv.Quote(plain)
	}
	return plain
}

func printDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
