package directive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/gen/diag"
)

// key is one key of the directive.
type key struct {
	name string
	// usage is what a message shows: the key with a stand-in for its value.
	usage string
	// structure marks the keys that say what is read; a directive has exactly one of them.
	structure bool
	// flag marks the keys that stand alone.
	flag bool
	// takesBlanks marks the keys whose value may have blanks in it.
	takesBlanks bool
	// set stores the value, get prints it: "" where the key is absent, anything else where a flag is there.
	set func(s *Subscriber, value string) *badValue
	get func(s *Subscriber) string
}

// badValue is what a key has against its value.
type badValue struct {
	code    diag.Code
	message string
	// instead is the nearest value that is valid, "" where none is near. It is sure where nothing else can have been meant.
	instead string
	sure    bool
}

// keys is in the order of the documentation, which is the order that String prints.
var keys = []key{
	structure("stream", "stream=KEY", func(s *Subscriber) *string { return &s.Stream }),
	structure("list", "list=KEY", func(s *Subscriber) *string { return &s.List }),
	structure("channel", "channel=NAME", func(s *Subscriber) *string { return &s.Channel }),
	structure("pattern", "pattern=GLOB", func(s *Subscriber) *string { return &s.Pattern }),
	text("group", "group=NAME", func(s *Subscriber) *string { return &s.Group }),
	duration("claim", func(s *Subscriber) *time.Duration { return &s.Claim }, time.Second),
	duration("reclaim", func(s *Subscriber) *time.Duration { return &s.Reclaim }, time.Second),
	word("start", "start=ID", func(s *Subscriber) *string { return &s.Start }, validStart),
	text("delay-set", "delay-set=KEY", func(s *Subscriber) *string { return &s.DelaySet }),
	duration("delay-ttl", func(s *Subscriber) *time.Duration { return &s.DelayTTL }, time.Millisecond),
	text("task", "task=NAME", func(s *Subscriber) *string { return &s.Task }),
	flag("foreign", func(s *Subscriber) *bool { return &s.Foreign }),
	flag("reliable", func(s *Subscriber) *bool { return &s.Reliable }),
	flag("sharded", func(s *Subscriber) *bool { return &s.Sharded }),
	word("codec", "codec=NAME", func(s *Subscriber) *string { return &s.Codec }, validCodec),
	duration("block", func(s *Subscriber) *time.Duration { return &s.Block }, time.Millisecond),
	duration("timeout", func(s *Subscriber) *time.Duration { return &s.Timeout }, time.Millisecond),
	text("name", "name=NAME", func(s *Subscriber) *string { return &s.Name }),
}

func structure(name, usage string, field func(*Subscriber) *string) key {
	k := text(name, usage, field)
	k.structure = true
	return k
}

// text is a key for names, which may be almost anything.
func text(name, usage string, field func(*Subscriber) *string) key {
	k := word(name, usage, field, validText)
	k.takesBlanks = true
	return k
}

func word(name, usage string, field func(*Subscriber) *string, valid func(string) *badValue) key {
	return key{
		name: name, usage: usage,
		set: func(s *Subscriber, value string) *badValue {
			*field(s) = value
			return valid(value)
		},
		get: func(s *Subscriber) string { return *field(s) },
	}
}

func flag(name string, field func(*Subscriber) *bool) key {
	return key{
		name: name, usage: name, flag: true,
		set: func(s *Subscriber, _ string) *badValue {
			*field(s) = true
			return nil
		},
		get: func(s *Subscriber) string {
			if *field(s) {
				return name
			}
			return ""
		},
	}
}

func duration(name string, field func(*Subscriber) *time.Duration, least time.Duration) key {
	return key{
		name: name, usage: name + "=DUR",
		set: func(s *Subscriber, value string) (bad *badValue) {
			*field(s), bad = parseDuration(value, least)
			return bad
		},
		get: func(s *Subscriber) string { return printDuration(*field(s)) },
	}
}

func findKey(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func flagNames() []string {
	var names []string
	for _, k := range keys {
		if k.flag {
			names = append(names, k.name)
		}
	}
	return names
}

func validText(value string) *badValue {
	switch {
	case strings.TrimSpace(value) == "":
		return &badValue{code: diag.BadText, message: "the value is blank"}
	case !utf8.ValidString(value):
		return &badValue{code: diag.BadText, message: "the value is not valid UTF-8"}
	case strings.ContainsFunc(value, unicode.IsControl):
		return &badValue{code: diag.BadText, message: "the value contains a control character"}
	}
	return nil
}

// starts are words for the two ends of a stream.
var starts = map[string]string{
	"first": "0", "begin": "0", "beginning": "0", "earliest": "0", "oldest": "0", "all": "0", "-": "0", "0-": "0",
	"last": "$", "end": "$", "now": "$", "new": "$", "latest": "$", "newest": "$", ">": "$", "+": "$",
}

func validStart(value string) *badValue {
	if value == "0" || value == "$" {
		return nil
	}
	ms, seq, hasSeq := strings.Cut(value, "-")
	if isUint64(ms) && (!hasSeq || isUint64(seq)) {
		return nil
	}
	return &badValue{
		code:    diag.BadStart,
		message: "a group starts at 0 (everything in the stream), $ (only what comes later) or an entry id such as 1526919030474-0",
		instead: starts[strings.ToLower(value)],
	}
}

func isUint64(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

var codecs = []string{"json", "cbor", "raw", "fields"}

func validCodec(value string) *badValue {
	if slices.Contains(codecs, value) {
		return nil
	}
	near := nearest(value, codecs)
	return &badValue{
		code:    diag.UnknownCodec,
		message: fmt.Sprintf("unknown codec %q: write json, cbor, raw or fields, or leave it out and give your own to app.WithCodec", clip(value)),
		instead: near, sure: near != "",
	}
}
