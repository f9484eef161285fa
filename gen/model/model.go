// Package model is what the directives of a package come to once the types are known: the input of everything that is
// generated.
package model

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/millrace-go/millrace/gen/directive"
)

// Package is one package with directives.
type Package struct {
	// Dir is the absolute path of its folder, Path its import path, Name its package clause.
	Dir, Path, Name string
	// Alias is the name under which the generated file imports the runtime.
	Alias string
	// Subscriptions are sorted by variable name.
	Subscriptions []Subscription

	// Fset has the positions of Files, which are the package's own, without function bodies and without the generated one.
	Fset  *token.FileSet
	Files []*ast.File
	// Types is the package as far as it compiles without the generated file.
	Types *types.Package
}

// Subscription is one generated variable.
type Subscription struct {
	// Var is the variable's name.
	Var string
	// Type is the receiver's type name, "" for a plain function; Func is the function's or method's name.
	Type, Func string
	Shape      Shape
	// ReturnsError is true where the handler answers with an error instead of an outcome.
	ReturnsError bool
	// Payload is the type of the handler's last parameter.
	Payload types.Type
	// Doc is the handler's comment, without directives.
	Doc string
	// Pos is where the handler's name stands, Directive where its directive begins.
	Pos, Directive token.Position
	// Spec has its Name filled in.
	Spec directive.Subscriber
}

// Shape is which of the accepted signatures a handler has.
type Shape int

// The accepted shapes.
const (
	Plain  Shape = iota // func(ctx, T) R
	State               // func(ctx, app.State[S], T) R
	Method              // func (s *S) H(ctx, T) R
)
