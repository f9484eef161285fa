package asyncapi

import (
	"fmt"
	"strings"
)

// id makes of a key or a name what may stand in a reference and in a URL as it is. Different texts may become alike.
func id(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02X", c)
		}
	}
	return b.String()
}

// free returns the name, or the first name-2, name-3 that is not taken.
func free[V any](taken map[string]V, name string) string {
	candidate := name
	for n := 2; ; n++ {
		if _, ok := taken[candidate]; !ok {
			return candidate
		}
		candidate = fmt.Sprintf("%s-%d", name, n)
	}
}

// inCommon returns the import path that all paths begin with, "" where there is none.
func inCommon(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	common := strings.Split(paths[0], "/")
	for _, path := range paths[1:] {
		parts := strings.Split(path, "/")
		n := 0
		for n < len(common) && n < len(parts) && common[n] == parts[n] {
			n++
		}
		common = common[:n]
	}
	return strings.Join(common, "/")
}
