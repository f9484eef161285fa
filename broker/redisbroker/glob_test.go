package redisbroker

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

func TestAPatternMatchesWhatItSays(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"events.*", "events.paid", true},
		{"events.*", "events.", true},
		{"events.*", "events", false},
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"h[ae]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[b-a]llo", "hallo", true},
		{`h\*llo`, "h*llo", true},
		{`h\*llo`, "hello", false},
		{`*a*b*c`, "xxaxxbxxc", true},
		{`*a*b*c`, "xxaxxcxxb", false},
		{"", "", true},
		{"*", "", false},
		{"*", "\x00\xff\n", true},
		{"[a", "a", true},
		{`a\`, `a\`, true},
		{`[\]]`, `]`, true},
		{"[^", "q", true},
		{"[", "[", false},
		{"[]", "]", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %t", c.pattern, c.name, got)
		}
	}
}

func TestALiteralPatternMatchesItselfAlone(t *testing.T) {
	for _, name := range []string{"plain", "a*b", "a?b", "a[bc]d", `a\b`, `\`, "[", "]", "^-", "{tag}:"} {
		if !matches(globLiteral(name), name) {
			t.Errorf("%q does not match itself", name)
		}
		for _, other := range []string{"axb", "ab", "abd", name + "x", "x" + name} {
			if other != name && matches(globLiteral(name), other) {
				t.Errorf("%q matches %q", name, other)
			}
		}
	}
}

// No pattern may make the match take time that grows with every star.
func TestManyStarsTakeNoTime(t *testing.T) {
	if matches(strings.Repeat("a*", 200)+"b", strings.Repeat("a", 20_000)) {
		t.Error("it matches")
	}
}

// What the server subscribes a pattern to is what we think it does: KEYS decides by the same function.
func TestPatternsMatchAsOnTheServer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, ctx := server.Client(), t.Context()
		const seed = 20
		r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // names for a test
		pick := func(alphabet string, longest int) string {
			b := make([]byte, r.IntN(longest+1))
			for i := range b {
				b[i] = alphabet[r.IntN(len(alphabet))]
			}
			return string(b)
		}
		// The keys share a beginning, so that whatever else stands on the server is left out.
		const begin = "glob:"
		names := []string{begin}
		for range 150 {
			names = append(names, begin+pick("abc]-^\\*[\x00\xc3", 4))
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names {
			if err := client.Set(ctx, name, "", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		patterns := []string{begin + "*", begin + "[", begin + "[^", begin + `[\`, begin + "[a-", begin + `\`, begin + "[^]", begin + "[]a]"}
		for range 3000 {
			patterns = append(patterns, begin+pick("aabbc*?[[]]^^--\\\xc3", 7))
		}
		replies := make([]*redis.StringSliceCmd, len(patterns))
		if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, pattern := range patterns {
				replies[i] = p.Keys(ctx, pattern)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for i, pattern := range patterns {
			want := replies[i].Val()
			slices.Sort(want)
			var got []string
			for _, name := range names {
				if matches(pattern, name) {
					got = append(got, name)
				}
			}
			if !slices.Equal(got, want) {
				if wrong++; wrong < 10 {
					t.Errorf("%q: we match %q, the server %q", pattern, got, want)
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%d of %d patterns differ", wrong, len(patterns))
		}
	})
}
