// Package emit writes the generated file of a package. It decides nothing: the same model always gives the same bytes.
package emit

import (
	"bytes"
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/model"
)

const runtimePath = "github.com/millrace-go/millrace/runtime"

// File returns the content of the generated file, formatted as gofmt does.
func File(p *model.Package) ([]byte, error) {
	f := jen.NewFile(p.Name)
	f.HeaderComment(genfile.Header)
	f.ImportAlias(runtimePath, p.Alias)

	f.Comment("Where this constant is undefined, the file is older or newer than the runtime: run go generate again.")
	f.Const().Id("_").Op("=").Qual(runtimePath, "GeneratedV1")
	for _, s := range p.Subscriptions {
		f.Line()
		for _, line := range doc(s) {
			f.Comment(line)
		}
		f.Var().Id(s.Var).Op("=").Qual(runtimePath, function(s)).Call(
			jen.Qual(runtimePath, "Spec").Custom(
				jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, fields(s)...),
			jen.Qual(runtimePath, codecs[s.Spec.Codec]),
			handler(s),
		)
	}
	var out bytes.Buffer
	if err := f.Render(&out); err != nil {
		return nil, fmt.Errorf("generate package %s: %w", p.Name, err)
	}
	return out.Bytes(), nil
}

// function names the runtime's function for the handler's signature. No types are written out: inference finds them, so
// aliases, unexported types and other people's imports never show up in a generated file.
func function(s model.Subscription) string {
	name := map[model.Shape]string{
		model.Plain:  "Subscribe",
		model.State:  "SubscribeState",
		model.Method: "SubscribeMethod",
	}[s.Shape]
	if s.ReturnsError {
		name += "Err"
	}
	return name
}

var codecs = map[string]string{"": "Default", "json": "JSON", "cbor": "CBOR", "raw": "Raw", "fields": "Fields"}

func handler(s model.Subscription) jen.Code {
	if s.Shape == model.Method {
		return jen.Parens(jen.Op("*").Id(s.Type)).Dot(s.Func)
	}
	return jen.Id(s.Func)
}
