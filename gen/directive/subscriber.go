package directive

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Subscriber is what one directive declares. The zero value of a field means that its key is absent.
type Subscriber struct {
	Stream   string
	Group    string
	Claim    time.Duration
	Reclaim  time.Duration
	Start    string
	DelaySet string
	DelayTTL time.Duration
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
		if k.get == nil {
			continue
		}
		if value := k.get(&s); value != "" {
			b.WriteByte(' ')
			b.WriteString(printToken(k.name, value))
		}
	}
	return b.String()
}

func printToken(key, value string) string {
	plain := key + "=" + value
	needsQuotes := strings.HasPrefix(value, "'") || commaIn(value) || strings.ContainsFunc(value, func(r rune) bool {
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
