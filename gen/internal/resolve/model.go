package resolve

import "github.com/millrace-go/millrace/gen/directive"

// Package is what one generated file is made from.
type Package struct {
	Dir  string
	Name string
	// Alias is the name under which the generated file imports the runtime.
	Alias string
	// Subscriptions are sorted by variable name.
	Subscriptions []Subscription
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
