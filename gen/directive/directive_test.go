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
		`stream=refunds`:                        {Stream: "refunds"},
		"\tstream=refunds \t group=refunds  ":   {Stream: "refunds", Group: "refunds"},
		`group=refunds stream=refunds`:          {Stream: "refunds", Group: "refunds"},
		`"stream=orders v2" group=a`:            {Stream: "orders v2", Group: "a"},
		"`stream=orders v2` group=a":            {Stream: "orders v2", Group: "a"},
		`"stream=say \"hi\""`:                   {Stream: `say "hi"`},
		`"stream=a,group=b"`:                    {Stream: "a,group=b"},
		`"stream='quoted'"`:                     {Stream: "'quoted'"},
		`stream=a=b`:                            {Stream: "a=b"},
		`"stream==a"`:                           {Stream: "=a"},
		`stream=a&b|c`:                          {Stream: "a&b|c"},
		`stream=a,reliably`:                     {Stream: "a,reliably"},
		`"stream=a&group=b"`:                    {Stream: "a&group=b"},
		`"stream=a\u200bb"`:                     {Stream: "a\u200bb"},
		`"stream=“a”"`:                          {Stream: "“a”"},
		`stream=a“b”`:                           {Stream: "a“b”"},
		`stream=a#1`:                            {Stream: "a#1"},
		`stream=a--b`:                           {Stream: "a--b"},
		`stream=http://x/y`:                     {Stream: "http://x/y"},
		`stream={tenant}:refunds`:               {Stream: "{tenant}:refunds"},
		`stream=bob's`:                          {Stream: "bob's"},
		`stream=a,b`:                            {Stream: "a,b"},
		`stream=заказы`:                         {Stream: "заказы"},
		`stream=s claim=30s`:                    {Stream: "s", Claim: 30 * time.Second},
		`stream=s reclaim=30s`:                  {Stream: "s", Reclaim: 30 * time.Second},
		`stream=s claim=1s`:                     {Stream: "s", Claim: time.Second},
		`stream=s claim=1h30m`:                  {Stream: "s", Claim: 90 * time.Minute},
		`stream=s block=1ms timeout=1.5s`:       {Stream: "s", Block: time.Millisecond, Timeout: 1500 * time.Millisecond},
		`stream=s start=0`:                      {Stream: "s", Start: "0"},
		`stream=s start=$`:                      {Stream: "s", Start: "$"},
		`stream=s start=1526919030474`:          {Stream: "s", Start: "1526919030474"},
		`stream=s start=1526919030474-55`:       {Stream: "s", Start: "1526919030474-55"},
		`stream=s delay-set=s.delayed`:          {Stream: "s", DelaySet: "s.delayed"},
		`stream=s delay-ttl=1h delay-set=d`:     {Stream: "s", DelaySet: "d", DelayTTL: time.Hour},
		`stream=s codec=json`:                   {Stream: "s", Codec: "json"},
		`stream=s codec=raw`:                    {Stream: "s", Codec: "raw"},
		`stream=s codec=cbor`:                   {Stream: "s", Codec: "cbor"},
		`stream=s codec=fields`:                 {Stream: "s", Codec: "fields"},
		`stream=s name=refunds.v2`:              {Stream: "s", Name: "refunds.v2"},
		`stream=s task=send_email`:              {Stream: "s", Task: "send_email"},
		`foreign stream=s`:                      {Stream: "s", Foreign: true},
		`stream=s foreign claim=1m`:             {Stream: "s", Foreign: true, Claim: time.Minute},
		`stream=s "foreign" codec=fields`:       {Stream: "s", Foreign: true, Codec: "fields"},
		`list=thumbnails`:                       {List: "thumbnails"},
		`list=l reliable block=1s`:              {List: "l", Reliable: true, Block: time.Second},
		`reliable delay-set=d list=l`:           {List: "l", Reliable: true, DelaySet: "d"},
		`channel=prices`:                        {Channel: "prices"},
		`channel=prices sharded`:                {Channel: "prices", Sharded: true},
		`pattern=events.*`:                      {Pattern: "events.*"},
		`"pattern=h[ae]llo ?" codec=json`:       {Pattern: "h[ae]llo ?", Codec: "json"},
		`channel=c codec=raw timeout=5s name=n`: {Channel: "c", Codec: "raw", Timeout: 5 * time.Second, Name: "n"},

		`list=l reliable delay-set=d delay-ttl=1h codec=cbor timeout=1s name=n`: {List: "l", Reliable: true, DelaySet: "d", DelayTTL: time.Hour, Codec: "cbor", Timeout: time.Second, Name: "n"},

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
		`////stream:subscriber stream=a`,
		`//streams:publisher stream=a`,
		`// Stream subscriber stream=%s failed`,
		`// streams: a subscriber with group=x reads all of them`,
		`// scream:subscribe`,
		`// http://stream:subscriber@host/?stream=a`,
		`// stream: the key of the source stream, given as stream=KEY`,
		`// stream:subscriber directives become values.`,
		`// //stream:subscriber stream=a`,
		`//	//stream:subscriber stream=a`,
		`// see stream:subscriber stream=a`,
		`/* stream: a b */`,
		`/** stream: a b */`,
		`/* * stream:subscriber directives become values */`,
		`// поток:subscriber stream=a`,
		`// Subscriber stream=a is what this one reads`,
		`//subscriber of stream=a`,
		`//millrace: a library`,
		`//other:subscriber stream=a`,
		`// stream:subscriber directives take keys such as stream=KEY`,
		"/*\nPackage p reads\n\n\tstream:subscriber stream=a\n\n//stream:subscriber stream=a\n*/",
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
