package directive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	// set stores the value, get prints it: "" where the key is absent, anything else where a flag is there.
	set func(s *Subscriber, value string) error
	get func(s *Subscriber) string
}

// keys is in the order of the documentation, which is the order that String prints.
var keys = []key{
	structure("stream", "stream=KEY", func(s *Subscriber) *string { return &s.Stream }),
	structure("list", "list=KEY", func(s *Subscriber) *string { return &s.List }),
	structure("channel", "channel=NAME", func(s *Subscriber) *string { return &s.Channel }),
	structure("pattern", "pattern=GLOB", func(s *Subscriber) *string { return &s.Pattern }),
	text("group", "group=NAME", func(s *Subscriber) *string { return &s.Group }, validKey),
	duration("claim", func(s *Subscriber) *time.Duration { return &s.Claim }, time.Second),
	duration("reclaim", func(s *Subscriber) *time.Duration { return &s.Reclaim }, time.Second),
	text("start", "start=ID", func(s *Subscriber) *string { return &s.Start }, validStart),
	text("delay-set", "delay-set=KEY", func(s *Subscriber) *string { return &s.DelaySet }, validKey),
	duration("delay-ttl", func(s *Subscriber) *time.Duration { return &s.DelayTTL }, time.Millisecond),
	text("task", "task=NAME", func(s *Subscriber) *string { return &s.Task }, validKey),
	flag("foreign", func(s *Subscriber) *bool { return &s.Foreign }),
	flag("reliable", func(s *Subscriber) *bool { return &s.Reliable }),
	flag("sharded", func(s *Subscriber) *bool { return &s.Sharded }),
	text("codec", "codec=NAME", func(s *Subscriber) *string { return &s.Codec }, validCodec),
	duration("block", func(s *Subscriber) *time.Duration { return &s.Block }, time.Millisecond),
	duration("timeout", func(s *Subscriber) *time.Duration { return &s.Timeout }, time.Millisecond),
	text("name", "name=NAME", func(s *Subscriber) *string { return &s.Name }, validKey),
}

func structure(name, usage string, field func(*Subscriber) *string) key {
	k := text(name, usage, field, validKey)
	k.structure = true
	return k
}

func text(name, usage string, field func(*Subscriber) *string, valid func(string) error) key {
	return key{
		name: name, usage: usage,
		set: func(s *Subscriber, value string) error {
			*field(s) = value
			return valid(value)
		},
		get: func(s *Subscriber) string { return *field(s) },
	}
}

func flag(name string, field func(*Subscriber) *bool) key {
	return key{
		name: name, usage: name, flag: true,
		set: func(s *Subscriber, _ string) error {
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
		set: func(s *Subscriber, value string) (err error) {
			*field(s), err = parseDuration(value, least)
			return err
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

func keyNames() []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

func validKey(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return errors.New("the value is blank")
	case !utf8.ValidString(value):
		return errors.New("the value is not valid UTF-8")
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("the value contains a control character")
	}
	return nil
}

func validStart(value string) error {
	if value == "0" || value == "$" {
		return nil
	}
	ms, seq, hasSeq := strings.Cut(value, "-")
	if isUint64(ms) && (!hasSeq || isUint64(seq)) {
		return nil
	}
	return errors.New("a group starts at 0 (everything in the stream), $ (only what comes later) or an entry id such as 1526919030474-0")
}

func isUint64(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

var codecs = []string{"json", "cbor", "raw", "fields"}

func validCodec(value string) error {
	if slices.Contains(codecs, value) {
		return nil
	}
	return fmt.Errorf("unknown codec %q%s: write json, cbor, raw or fields, or leave it out and give your own to app.WithCodec", value, didYouMean(value, codecs))
}
