package flat

import (
	"go/token"
	"go/types"
)

// Kind is how a flat field holds a value.
type Kind int

// The kinds.
const (
	None Kind = iota // not at all
	Time
	Duration
	Text // by a method UnmarshalText
	Bytes
	Basic // as the basic type that it is made of
)

// takes reports whether the tag may have the option.
func (k Kind) takes(option string) bool {
	return k == Time && (option == "unix" || option == "unixms") || k == Duration && (option == "s" || option == "ms")
}

// kindOf returns how a flat field can hold the type. One that does not compile is the compiler's business.
func kindOf(t types.Type) Kind {
	switch {
	case isNamed(t, "time", "Time"):
		return Time
	case isNamed(t, "time", "Duration"):
		return Duration
	case UnmarshalsText(t):
		return Text
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		const cannot = types.IsComplex | types.IsUntyped
		if u.Kind() == types.Invalid || u.Info()&cannot == 0 && u.Kind() != types.Uintptr && u.Kind() != types.UnsafePointer {
			return Basic
		}
	case *types.Slice:
		if elem, ok := u.Elem().Underlying().(*types.Basic); ok && elem.Kind() == types.Uint8 {
			return Bytes
		}
	case *types.Struct:
		if isTimeStruct(u) {
			return Time
		}
	}
	return None
}

func isNamed(t types.Type, path, name string) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path
}

// isTimeStruct knows the struct of time.Time under another name.
func isTimeStruct(s *types.Struct) bool {
	if s.NumFields() == 0 {
		return false
	}
	pkg := s.Field(0).Pkg()
	if pkg == nil || pkg.Path() != "time" {
		return false
	}
	t := pkg.Scope().Lookup("Time")
	return t != nil && types.Identical(t.Type().Underlying(), s)
}

// UnmarshalsText reports whether a pointer to t is an encoding.TextUnmarshaler.
func UnmarshalsText(t types.Type) bool {
	if types.IsInterface(t) {
		return false // a pointer to an interface has no methods
	}
	return types.Implements(types.NewPointer(t), textUnmarshaler)
}

// textUnmarshaler is encoding.TextUnmarshaler, which the checked package need not import.
var textUnmarshaler = types.NewInterfaceType([]*types.Func{
	types.NewFunc(token.NoPos, nil, "UnmarshalText", types.NewSignatureType(nil, nil, nil,
		types.NewTuple(types.NewParam(token.NoPos, nil, "text", types.NewSlice(types.Typ[types.Byte]))),
		types.NewTuple(types.NewParam(token.NoPos, nil, "", types.Universe.Lookup("error").Type())), false)),
}, nil).Complete()
