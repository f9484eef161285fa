package emit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/model"
)

// doc is the variable's comment: the handler it belongs to, what it reads, and what is left to do before it is mounted.
func doc(s model.Subscription) []string {
	link := "[" + strings.TrimPrefix(s.Type+"."+s.Func, ".") + "]"
	lines := []string{fmt.Sprintf("%s subscribes %s to %s.", s.Var, link, reads(s))}
	switch s.Shape {
	case model.State:
		lines = append(lines, "It needs its state: mount the value that With returns.")
	case model.Method:
		lines = append(lines, fmt.Sprintf("It needs its receiver: mount the value that With returns for a *%s.", s.Type))
	}
	return lines
}

// reads says what the subscription takes its messages from.
func reads(s model.Subscription) string {
	spec := &s.Spec
	switch {
	case spec.List != "":
		return "list " + quoted(spec.List)
	case spec.Channel != "":
		return "channel " + quoted(spec.Channel)
	case spec.Pattern != "":
		return "the channels that match " + quoted(spec.Pattern)
	}
	source := "stream " + quoted(spec.Stream)
	if spec.Group != "" {
		source += " as group " + quoted(spec.Group)
	}
	if spec.Task != "" {
		source += ", for task " + quoted(spec.Task)
	}
	return source
}

// quoted leaves ordinary keys as they are, so that the sentence reads as one.
func quoted(key string) string {
	odd := strings.ContainsFunc(key, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '[' || r == ']' || !strconv.IsPrint(r)
	})
	if odd {
		return strconv.Quote(key)
	}
	return key
}
