package directive_test

import (
	"fmt"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/gen/directive"
)

const base = token.Pos(1000)

func TestParseAccepts(t *testing.T) {
	for args, want := range map[string]directive.Subscriber{
		`stream=refunds`:                      {Stream: "refunds"},
		"\tstream=refunds \t group=refunds  ": {Stream: "refunds", Group: "refunds"},
		`group=refunds stream=refunds`:        {Stream: "refunds", Group: "refunds"},
		`"stream=orders v2" group=a`:          {Stream: "orders v2", Group: "a"},
		"`stream=orders v2` group=a":          {Stream: "orders v2", Group: "a"},
		`"stream=say \"hi\""`:                 {Stream: `say "hi"`},
		`"stream=a,group=b"`:                  {Stream: "a,group=b"},
		`"stream='quoted'"`:                   {Stream: "'quoted'"},
		`stream=a=b`:                          {Stream: "a=b"},
		`stream=http://x/y`:                   {Stream: "http://x/y"},
		`stream={tenant}:refunds`:             {Stream: "{tenant}:refunds"},
		`stream=bob's`:                        {Stream: "bob's"},
		`stream=a,b`:                          {Stream: "a,b"},
		`stream=заказы`:                       {Stream: "заказы"},
		`stream=s claim=30s`:                  {Stream: "s", Claim: 30 * time.Second},
		`stream=s reclaim=30s`:                {Stream: "s", Reclaim: 30 * time.Second},
		`stream=s claim=1s`:                   {Stream: "s", Claim: time.Second},
		`stream=s claim=1h30m`:                {Stream: "s", Claim: 90 * time.Minute},
		`stream=s block=1ms timeout=1.5s`:     {Stream: "s", Block: time.Millisecond, Timeout: 1500 * time.Millisecond},
		`stream=s start=0`:                    {Stream: "s", Start: "0"},
		`stream=s start=$`:                    {Stream: "s", Start: "$"},
		`stream=s start=1526919030474`:        {Stream: "s", Start: "1526919030474"},
		`stream=s start=1526919030474-55`:     {Stream: "s", Start: "1526919030474-55"},
		`stream=s delay-set=s.delayed`:        {Stream: "s", DelaySet: "s.delayed"},
		`stream=s delay-ttl=1h delay-set=d`:   {Stream: "s", DelaySet: "d", DelayTTL: time.Hour},
		`stream=s codec=json`:                 {Stream: "s", Codec: "json"},
		`stream=s codec=raw`:                  {Stream: "s", Codec: "raw"},
		`stream=s codec=cbor`:                 {Stream: "s", Codec: "cbor"},
		`stream=s codec=fields`:               {Stream: "s", Codec: "fields"},
		`stream=s name=refunds.v2`:            {Stream: "s", Name: "refunds.v2"},
		`stream=s task=send_email`:            {Stream: "s", Task: "send_email"},
		`foreign stream=s`:                    {Stream: "s", Foreign: true},
		`stream=s foreign claim=1m`:           {Stream: "s", Foreign: true, Claim: time.Minute},
		`stream=s "foreign" codec=fields`:     {Stream: "s", Foreign: true, Codec: "fields"},
		`list=thumbnails`:                     {List: "thumbnails"},
		`list=l reliable block=1s`:            {List: "l", Reliable: true, Block: time.Second},
		`reliable delay-set=d list=l`:         {List: "l", Reliable: true, DelaySet: "d"},
		`list=l reliable delay-set=d delay-ttl=1h codec=cbor timeout=1s name=n`: {List: "l", Reliable: true, DelaySet: "d", DelayTTL: time.Hour, Codec: "cbor", Timeout: time.Second, Name: "n"},
		`channel=prices`:                                                {Channel: "prices"},
		`channel=prices sharded`:                                        {Channel: "prices", Sharded: true},
		`pattern=events.*`:                                              {Pattern: "events.*"},
		`"pattern=h[ae]llo ?" codec=json`:                               {Pattern: "h[ae]llo ?", Codec: "json"},
		`channel=c codec=raw timeout=5s name=n`:                         {Channel: "c", Codec: "raw", Timeout: 5 * time.Second, Name: "n"},
		`stream=s timeout=1m group=g block=2s start=$ name=n codec=raw`: {Stream: "s", Group: "g", Start: "$", Codec: "raw", Block: 2 * time.Second, Timeout: time.Minute, Name: "n"},
	} {
		text := directive.Spelling + " " + args
		d, errs, ours := directive.Parse(base, text)
		if !ours || len(errs) > 0 {
			t.Errorf("%s: ours %v, errors %v", text, ours, errs)
			continue
		}
		if d.Subscriber != want {
			t.Errorf("%s:\n got %+v\nwant %+v", text, d.Subscriber, want)
		}
		if d.Pos != base {
			t.Errorf("%s: at %d", text, d.Pos-base)
		}
	}
}

// Every bad line gives exactly one error. The caret line shows where: it points at a byte of the line above it.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, caret, want string }{
		{
			`//stream:subscriber`,
			`^`, "add stream=KEY",
		},
		{
			`//stream:subscriber group=refunds`,
			`^`, "add stream=KEY",
		},
		{
			`//stream:subscriber stream=`,
			`                    ^`, "stream is empty: write stream=KEY",
		},
		{
			`//stream:subscriber "stream=  "`,
			`                    ^`, "blank",
		},
		{
			`//stream:subscriber "stream=a\x00b"`,
			`                    ^`, "control character",
		},
		{
			`//stream:subscriber "stream=a\xff"`,
			`                    ^`, "UTF-8",
		},
		{
			`//stream:subscriber stream`,
			`                    ^`, "stream needs a value: write stream=KEY",
		},
		{
			`//stream:subscriber =refunds`,
			`                    ^`, "no key",
		},
		{
			`//stream:subscriber stream=a stream=b`,
			`                             ^`, "stream is given twice",
		},
		{
			`//stream:subscriber stream=a group=b group=b`,
			`                                     ^`, "group is given twice",
		},
		{
			`//stream:subscriber stream=a group=`,
			`                             ^`, "group is empty: write group=NAME",
		},
		{
			`//stream:subscriber stream = a`,
			`                    ^`, "no blanks around the equals sign: write stream=KEY",
		},
		{
			`//stream:subscriber stream =a`,
			`                    ^`, "no blanks around the equals sign",
		},
		{
			`//stream:subscriber steam=a`,
			`                    ^`, `unknown key "steam" (did you mean stream?)`,
		},
		{
			`//stream:subscriber stream=a gruop=b`,
			`                             ^`, `(did you mean group?)`,
		},
		{
			`//stream:subscriber stream=a Group=b`,
			`                             ^`, `(did you mean group?)`,
		},
		{
			`//stream:subscriber stream=a delay_set=b`,
			`                             ^`, `(did you mean delay-set?)`,
		},
		{
			`//stream:subscriber stream=a --group=b`,
			`                             ^`, `(did you mean group?)`,
		},
		{
			`//stream:subscriber stream=a min-idle=30s`,
			`                             ^`, `unknown key "min-idle"`,
		},
		{
			`//stream:subscriber stream=a relible`,
			`                             ^`, `(did you mean reliable?)`,
		},
		{
			`//stream:subscriber stream:a`,
			`                    ^`, "write stream=a",
		},
		{
			`//stream:subscriber stream=orders v2`,
			`                                  ^`, `unknown token "v2"`,
		},
		{
			`//stream:subscriber stream="orders v2" group=a`,
			`                    ^`, `as in "stream=orders v2"`,
		},
		{
			"//stream:subscriber stream=`orders v2`",
			`                    ^`, `as in "stream=orders v2"`,
		},
		{
			`//stream:subscriber stream='orders'`,
			`                    ^`, `as in "stream=orders"`,
		},
		{
			`//stream:subscriber stream='orders v2' group=a`,
			`                    ^`, `as in "stream=orders v2"`,
		},
		{
			`//stream:subscriber group=a stream="orders v2`,
			`                            ^`, `as in "stream=orders v2"`,
		},
		{
			`//stream:subscriber "stream=orders v2`,
			`                    ^`, "does not end",
		},
		{
			`//stream:subscriber group=a "stream=\q"`,
			`                            ^`, "escape",
		},
		{
			`//stream:subscriber "stream"=orders`,
			`                    ^`, "encloses a token as a whole",
		},
		{
			`//stream:subscriber "stream=a"group=b`,
			`                    ^`, "followed by a blank",
		},
		{
			`//stream:subscriber stream=a // the refunds`,
			`                             ^`, "a note cannot follow",
		},
		{
			`//stream:subscriber stream=a //note`,
			`                             ^`, "a note cannot follow",
		},
		{
			`//stream:subscriber stream=a /* note */`,
			`                             ^`, "a note cannot follow",
		},
		{
			`//stream:subscriber stream=a, group=b`,
			`                    ^`, `quote the token: "stream=a,"`,
		},
		{
			`//stream:subscriber stream=a,group=b`,
			`                    ^`, "blanks separate the keys",
		},
		{
			`//stream:subscriber stream=a; group=b`,
			`                    ^`, "blanks separate the keys",
		},
		{
			`//stream:subscriber stream=a claim=30`,
			`                             ^`, "claim: 30 has no unit: write 30s or 30ms",
		},
		{
			`//stream:subscriber stream=a claim=0`,
			`                             ^`, "no unit",
		},
		{
			`//stream:subscriber stream=a claim=1.5`,
			`                             ^`, "no unit",
		},
		{
			`//stream:subscriber stream=a claim=-30s`,
			`                             ^`, "claim: -30s is negative",
		},
		{
			`//stream:subscriber stream=a claim=999ms`,
			`                             ^`, "claim: 999ms is too short: the least is 1s",
		},
		{
			`//stream:subscriber stream=a block=5000`,
			`                             ^`, "block: 5000 has no unit",
		},
		{
			`//stream:subscriber stream=a block=500us`,
			`                             ^`, "block: 500us is too short: the least is 1ms",
		},
		{
			`//stream:subscriber stream=a block=0s`,
			`                             ^`, "too short",
		},
		{
			`//stream:subscriber stream=a timeout=1ns`,
			`                             ^`, "timeout: 1ns is too short",
		},
		{
			`//stream:subscriber stream=a timeout=10minutes`,
			`                             ^`, `timeout: "10minutes" is not a duration`,
		},
		{
			`//stream:subscriber stream=a timeout=3d`,
			`                             ^`, `timeout: "3d" is not a duration`,
		},
		{
			`//stream:subscriber stream=a timeout=inf`,
			`                             ^`, "timeout: inf has no unit",
		},
		{
			`//stream:subscriber stream=a timeout=9999999999h`,
			`                             ^`, "is not a duration",
		},
		{
			`//stream:subscriber stream=a delay-set=d delay-ttl=0ms`,
			`                                         ^`, "delay-ttl: 0ms is too short",
		},
		{
			`//stream:subscriber stream=a delay-ttl=1h`,
			`                             ^`, "add delay-set=KEY",
		},
		{
			`//stream:subscriber stream=a start=now`,
			`                             ^`, "start: a group starts at 0",
		},
		{
			`//stream:subscriber stream=a start=>`,
			`                             ^`, "start: ",
		},
		{
			`//stream:subscriber stream=a start=-1`,
			`                             ^`, "start: ",
		},
		{
			`//stream:subscriber stream=a start=1-`,
			`                             ^`, "start: ",
		},
		{
			`//stream:subscriber stream=a start=1-2-3`,
			`                             ^`, "start: ",
		},
		{
			`//stream:subscriber stream=a codec=JSON`,
			`                             ^`, `codec: unknown codec "JSON" (did you mean json?)`,
		},
		{
			`//stream:subscriber stream=a codec=xml`,
			`                             ^`, "write json, cbor, raw or fields",
		},
		{
			`//stream:subscriber list=`,
			`                    ^`, "list is empty: write list=KEY",
		},
		{
			`//stream:subscriber channel`,
			`                    ^`, "channel needs a value: write channel=NAME",
		},
		{
			`//stream:subscriber "pattern= "`,
			`                    ^`, "blank",
		},
		{
			`//stream:subscriber stream=a list=b`,
			`                             ^`, "list beside stream: a directive reads one structure; leave one out",
		},
		{
			`//stream:subscriber pattern=a* channel=b`,
			`                               ^`, "channel beside pattern: a directive reads one structure; leave one out",
		},
		{
			`//stream:subscriber list=a reliable=true`,
			`                           ^`, "reliable takes no value: write reliable alone",
		},
		{
			`//stream:subscriber list=a reliable=`,
			`                           ^`, "reliable takes no value",
		},
		{
			`//stream:subscriber stream=a foreign = yes`,
			`                             ^`, "foreign takes no value",
		},
		{
			`//stream:subscriber channel=a sharded sharded`,
			`                                      ^`, "sharded is given twice",
		},
		{
			`//stream:subscriber channel=a shraded`,
			`                              ^`, "(did you mean sharded?)",
		},
		{
			`//stream:subscriber list=a group=g`,
			`                           ^`, "group beside list: consumer groups belong to streams; leave group out, or read stream=KEY",
		},
		{
			`//stream:subscriber group=g channel=a`,
			`                    ^`, "group beside channel",
		},
		{
			`//stream:subscriber list=a claim=30s`,
			`                           ^`, "claim beside list: only entries of a stream stay pending; leave claim out, or read stream=KEY",
		},
		{
			`//stream:subscriber pattern=a reclaim=30s`,
			`                              ^`, "reclaim beside pattern",
		},
		{
			`//stream:subscriber channel=a start=$`,
			`                              ^`, "start beside channel",
		},
		{
			`//stream:subscriber list=a task=t`,
			`                           ^`, "task beside list",
		},
		{
			`//stream:subscriber list=a foreign`,
			`                           ^`, "foreign beside list",
		},
		{
			`//stream:subscriber stream=a reliable`,
			`                             ^`, "reliable beside stream: an in-flight list belongs to a list; leave reliable out, or read list=KEY",
		},
		{
			`//stream:subscriber reliable channel=a`,
			`                    ^`, "reliable beside channel",
		},
		{
			`//stream:subscriber list=a sharded`,
			`                           ^`, "sharded beside list: SSUBSCRIBE takes the name of a channel; leave sharded out, or read channel=NAME",
		},
		{
			`//stream:subscriber pattern=a sharded`,
			`                              ^`, "sharded beside pattern",
		},
		{
			`//stream:subscriber channel=a block=1s`,
			`                              ^`, "block beside channel: what a channel sends comes by itself; leave block out, or read stream=KEY",
		},
		{
			`//stream:subscriber channel=a delay-set=d`,
			`                              ^`, "delay-set beside channel",
		},
		{
			`//stream:subscriber pattern=a delay-set=d delay-ttl=1h`,
			`                              ^`, "delay-set beside pattern",
		},
		{
			`//stream:subscriber channel=a delay-ttl=1h`,
			`                              ^`, "delay-ttl beside channel",
		},
		{
			`//stream:subscriber list=a delay-set=d`,
			`                           ^`, "delay-set beside list: delays are kept for a list that is reliable; add reliable, or leave delay-set out",
		},
		{
			`//stream:subscriber list=a reliable delay-ttl=1h`,
			`                                    ^`, "add delay-set=KEY",
		},
		{
			`//stream:subscriber stream=a foreign delay-set=d`,
			`                                     ^`, "delay-set beside foreign: nothing is copied from a foreign stream",
		},
		{
			`//stream:subscriber stream=a delay-set=d codec=fields`,
			`                             ^`, "delay-set beside codec=fields: it implies foreign",
		},
		{
			`//stream:subscriber list=a codec=fields`,
			`                           ^`, "codec=fields beside list: only entries of a stream have fields; leave codec=fields out, or read stream=KEY",
		},
		{
			`//stream:subscriber stream=a task=`,
			`                             ^`, "task is empty: write task=NAME",
		},
		{
			`//stream:subscriber stream=a claim=30s reclaim=30s`,
			`                                       ^`, "reclaim beside claim",
		},
		{
			`//stream:subscriber stream=a reclaim=30`,
			`                             ^`, "30 has no unit",
		},
		{
			`//stream:subscribe stream=a`,
			`         ^`, "unknown directive //stream:subscribe: the one that exists is //stream:subscriber",
		},
		{
			`//stream:subscriber(stream=a)`,
			`         ^`, "unknown directive",
		},
		{
			`//stream:publisher`,
			`         ^`, "unknown directive",
		},
		{
			`// stream:subscriber stream=a`,
			`^`, "not a directive: write //stream:subscriber",
		},
		{
			"//\tstream:subscriber stream=a",
			`^`, "not a directive",
		},
		{
			`//Stream:subscriber stream=a`,
			`^`, "not a directive",
		},
		{
			`//stream:Subscriber stream=a`,
			`^`, "not a directive",
		},
		{
			`//STREAM:SUBSCRIBER STREAM=A`,
			`^`, "not a directive",
		},
		{
			`//stream: subscriber stream=a`,
			`^`, "not a directive",
		},
		{
			`//stream :subscriber stream=a`,
			`^`, "not a directive",
		},
		{
			`// stream:subscriber`,
			`^`, "not a directive",
		},
		{
			`/*stream:subscriber stream=a*/`,
			`^`, "write //stream:subscriber stream=a",
		},
	} {
		_, errs, ours := directive.Parse(base, c.text)
		if !ours || len(errs) != 1 {
			t.Errorf("%s: ours %v, errors %v", c.text, ours, errs)
			continue
		}
		if at := token.Pos(strings.IndexByte(c.caret, '^')); errs[0].Pos != base+at {
			t.Errorf("%s: at %d, want %d", c.text, errs[0].Pos-base, at)
		}
		if !strings.Contains(errs[0].Message, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.text, errs[0].Message, c.want)
		}
		if !directive.Mentions([]byte("package p\n\n" + c.text + "\n")) {
			t.Errorf("%s: the byte scan overlooks it", c.text)
		}
	}
}

func TestParseReportsEveryProblemOfALine(t *testing.T) {
	_, errs, _ := directive.Parse(base, `//stream:subscriber stream=a claim=30 gruop=b start=x`)
	var at []string
	for _, e := range errs {
		at = append(at, fmt.Sprint(e.Pos-base))
	}
	if got := strings.Join(at, " "); got != "29 38 46" {
		t.Errorf("problems at %s: %v", got, errs)
	}
}

func TestParseLeavesOtherCommentsAlone(t *testing.T) {
	for _, text := range []string{
		`//`,
		`// A comment.`,
		`//go:generate go tool streamgen ./...`,
		`//streams:subscriber stream=a`,
		`// stream: the key of the source stream, given as stream=KEY`,
		`// stream:subscriber directives become values.`,
		`// //stream:subscriber stream=a`,
		`//	//stream:subscriber stream=a`,
		`// see stream:subscriber stream=a`,
		`/* stream: a b */`,
	} {
		if d, errs, ours := directive.Parse(base, text); ours {
			t.Errorf("%s: %+v, %v", text, d, errs)
		}
	}
}

func TestKeyPos(t *testing.T) {
	d, errs, _ := directive.Parse(base, `//stream:subscriber stream=a "codec=raw"`)
	if len(errs) > 0 || d.KeyPos("codec") != base+29 || d.KeyPos("group") != base {
		t.Errorf("codec at %d, group at %d, errors %v", d.KeyPos("codec")-base, d.KeyPos("group")-base, errs)
	}
}

func TestString(t *testing.T) {
	s := directive.Subscriber{Name: "n", Stream: "orders v2", Group: "g", DelaySet: `d"`, DelayTTL: time.Hour, Claim: 1500 * time.Millisecond}
	want := `//stream:subscriber "stream=orders v2" group=g claim=1.5s "delay-set=d\"" delay-ttl=1h0m0s name=n`
	if got := s.String(); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	s = directive.Subscriber{Pattern: "[a-z] *", Sharded: true, Reliable: true, Foreign: true, Task: "t", Codec: "cbor"}
	want = `//stream:subscriber "pattern=[a-z] *" task=t foreign reliable sharded codec=cbor`
	if got := s.String(); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`//stream:subscriber stream=refunds group=refunds delay-set=refunds.delayed delay-ttl=1h`,
		`//stream:subscriber "stream=orders v2" claim=30s start=$ codec=raw block=1s timeout=1m30s name=x`,
		"//stream:subscriber `stream=a b` start=1-2",
		`//stream:subscriber "stream=\u00e9\n" group="x y`,
		`//stream:subscriber stream='a group=a,claim=1 = ;`,
		`//stream:subscriber list=a // note`,
		`//stream:subscriber list=a reliable delay-set=b delay-ttl=1m codec=cbor`,
		`//stream:subscriber channel=a sharded reliable= codec=fields`,
		`//stream:subscriber "pattern=a *" foreign task=b`,
		`// stream : subscriber a=b`,
		`/*stream:subscriber*/`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n") || !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "/*") {
			t.Skip("not a comment of one line")
		}
		d, errs, ours := directive.Parse(base, text)
		if !ours {
			if len(errs) > 0 {
				t.Errorf("errors in somebody else's comment: %v", errs)
			}
			return
		}
		if !directive.Mentions([]byte(text)) {
			t.Errorf("the byte scan overlooks %q", text)
		}
		for _, e := range errs {
			if e.Pos < base || e.Pos > base+token.Pos(len(text)) {
				t.Errorf("%q: position %d is outside the comment", text, e.Pos-base)
			}
			if e.Message == "" {
				t.Errorf("%q: an empty message", text)
			}
		}
		if len(errs) > 0 {
			return
		}
		if d.Stream+d.List+d.Channel+d.Pattern == "" {
			t.Errorf("%q: no structure and no error", text)
		}
		printed := d.Subscriber.String()
		again, errs, _ := directive.Parse(base, printed)
		if len(errs) > 0 || again.Subscriber != d.Subscriber {
			t.Errorf("%q: printed as %q, which gives %+v and %v instead of %+v", text, printed, again.Subscriber, errs, d.Subscriber)
		}
	})
}
