package directive_test

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/gen/directive"
)

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
		"//stream:subscriber \xb0\"0`0=0",
		`/*stream:subscriber*/`,
		"/*stream:subscriber \v\n*/",
		"/*\nx\nstream:subscriber list=a\n*/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if line := strings.HasPrefix(text, "//") && !strings.Contains(text, "\n"); !line && !strings.HasPrefix(text, "/*") {
			t.Skip("not a comment")
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
			checkEdit(t, text, e)
			if e.Message == "" || e.Code.Title() == "" {
				t.Errorf("%q: an empty message, or an unknown code: %+v", text, e)
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
