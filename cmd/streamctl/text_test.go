package main

import (
	"testing"
	"time"
)

func TestTextsAreQuotedAndCut(t *testing.T) {
	long := "0123456789012345678901234567890123456789012345678901234567ä9" // 61 bytes, the ä across the cut
	for _, c := range []struct{ text, cell, shown string }{
		{"", "", ""},
		{`{"id":7}`, `{"id":7}`, `{"id":7}`},
		{"größer 日本", "größer 日本", "größer 日本"},
		{"two\nlines", `"two\nlines"`, "two\nlines"},
		{"\x00\xff", `"\x00\xff"`, `"\x00\xff"`},
		{"\x1b[31mred", `"\x1b[31mred"`, `"\x1b[31mred"`},
		{"a\u202eb", `"a\u202eb"`, `"a\u202eb"`},
		{long[:58], long[:58], long[:58]},
		{long, long[:60] + "… (61 bytes)", long},
		{long[:59] + "é0", `"` + long[:58] + `\xc3"… (62 bytes)`, `"` + long[:58] + `\xc3é0"`},
	} {
		if got := cell(c.text); got != c.cell {
			t.Errorf("the cell of %q is %s, want %s", c.text, got, c.cell)
		}
		if got := shown(c.text, 100); got != c.shown {
			t.Errorf("%q is shown as %s, want %s", c.text, got, c.shown)
		}
	}
	if got := shown("0123456789", 4); got != "0123… (10 bytes)" {
		t.Errorf("cut to %s", got)
	}
	if got := shown("0123456789", 0); got != "0123456789" {
		t.Errorf("all of it is %s", got)
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "2ms", 59900 * time.Millisecond: "59s", time.Minute: "1m", 90 * time.Second: "1m30s",
		time.Hour: "1h", 3*time.Hour + 12*time.Minute + 5*time.Second: "3h12m", 24 * time.Hour: "1d", 49 * time.Hour: "2d1h",
		-90 * time.Second: "-1m30s", 10*time.Hour + 10*time.Minute: "10h10m",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestCredentialsOfURLsAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"dial redis://user:p@ss@host:1/0 failed":    "dial redis://***@host:1/0 failed",
		`there is no command "rediss://:x@h" in sc`: `there is no command "rediss://***@h" in sc`,
		"redis://host:1": "redis://host:1",
	} {
		if got := redact(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
