package directive

import (
	"errors"
	"fmt"
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
	// set stores the value, get prints it. Both are nil for a key that the language has and this version does not.
	set func(s *Subscriber, value string) error
	get func(s *Subscriber) string
}

// keys is in the order of the documentation, which is the order that String prints.
var keys = []key{
	text("stream", "stream=KEY", true, func(s *Subscriber) *string { return &s.Stream }, validKey),
	{name: "list", usage: "list=KEY", structure: true},
	{name: "channel", usage: "channel=NAME", structure: true},
	{name: "pattern", usage: "pattern=GLOB", structure: true},
	text("group", "group=NAME", false, func(s *Subscriber) *string { return &s.Group }, validKey),
	duration("claim", func(s *Subscriber) *time.Duration { return &s.Claim }, time.Second),
	duration("reclaim", func(s *Subscriber) *time.Duration { return &s.Reclaim }, time.Second),
	text("start", "start=ID", false, func(s *Subscriber) *string { return &s.Start }, validStart),
	text("delay-set", "delay-set=KEY", false, func(s *Subscriber) *string { return &s.DelaySet }, validKey),
	duration("delay-ttl", func(s *Subscriber) *time.Duration { return &s.DelayTTL }, time.Millisecond),
	{name: "task", usage: "task=NAME"},
	{name: "foreign", usage: "foreign"},
	{name: "reliable", usage: "reliable"},
	text("codec", "codec=NAME", false, func(s *Subscriber) *string { return &s.Codec }, validCodec),
	duration("block", func(s *Subscriber) *time.Duration { return &s.Block }, time.Millisecond),
	duration("timeout", func(s *Subscriber) *time.Duration { return &s.Timeout }, time.Millisecond),
	text("name", "name=NAME", false, func(s *Subscriber) *string { return &s.Name }, validKey),
}

func text(name, usage string, structure bool, field func(*Subscriber) *string, valid func(string) error) key {
	return key{
		name: name, usage: usage, structure: structure,
		set: func(s *Subscriber, value string) error {
			*field(s) = value
			return valid(value)
		},
		get: func(s *Subscriber) string { return *field(s) },
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

var codecs = []string{"json", "raw"}

func validCodec(value string) error {
	switch value {
	case "json", "raw":
		return nil
	case "cbor", "fields":
		return fmt.Errorf("codec=%s is not supported yet: this version has json and raw", value)
	}
	return fmt.Errorf("unknown codec %q%s: this version has json and raw", value, didYouMean(value, codecs))
}
