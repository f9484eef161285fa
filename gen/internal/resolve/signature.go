package resolve

import (
	"go/ast"
	"go/types"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/model"
)

const acceptedShapes = "a handler is func(ctx, T) R, func(ctx, app.State[S], T) R or func (s *S) H(ctx, T) R, " +
	"where ctx is a context.Context and R is outcome.HandlerOutcome or error"

// signature is what the generated call depends on.
type signature struct {
	shape        model.Shape
	returnsError bool
	// receiver is the name of the receiver's type.
	receiver string
	payload  types.Type
}

// signature checks the handler's signature and reports what is wrong with it.
func (r *resolver) signature(h handler) (signature, bool) {
	name := h.decl.Name
	fail := func(code diag.Code, format string, args ...any) (signature, bool) {
		r.report(code, h.place(), format, args...)
		return signature{}, false
	}
	if name.Name == "_" || h.decl.Recv == nil && (name.Name == "init" || name.Name == "main") {
		return fail(diag.NoHandlerName, "%s cannot be a handler: give the function a name of its own", name.Name)
	}
	if h.decl.Type.TypeParams != nil {
		return fail(diag.Generic, "%s has type parameters: write a function for the one type that the subscription carries, and call the generic one from it", name.Name)
	}
	fn, receiver := r.object(h.decl)
	if r.typeErrors(h.decl, fn) {
		return signature{}, false
	}
	if fn == nil {
		return fail(diag.TypeError, "%s is declared more than once", h.name())
	}
	sig := fn.Signature()
	s := signature{}
	params := sig.Params()
	if recv := sig.Recv(); recv != nil {
		if _, ok := types.Unalias(recv.Type()).(*types.Pointer); !ok {
			return fail(diag.ValueReceiver, "the receiver of %s is a value: make it a pointer, func (s *%s) %s", h.name(), receiverName(h.decl), name.Name)
		}
		if receiver == nil || receiver.TypeParams().Len() > 0 {
			return fail(diag.Generic, "the receiver of %s has type parameters: write a function or a type for the one that the subscription carries", h.name())
		}
		s.shape, s.receiver = model.Method, receiver.Obj().Name()
	} else if params.Len() == 3 && isNamed(params.At(1).Type(), runtimePath, "State") {
		s.shape = model.State
	}
	want := 2
	if s.shape == model.State {
		want = 3
	}
	if sig.Results().Len() != 1 || params.Len() != want || sig.Variadic() || !isNamed(params.At(0).Type(), "context", "Context") {
		return fail(diag.Signature, "%s has the wrong signature: %s", h.name(), acceptedShapes)
	}
	s.payload = params.At(want - 1).Type()
	if isNamed(s.payload, runtimePath, "State") {
		return fail(diag.Signature, "%s takes its state but no payload: %s", h.name(), acceptedShapes)
	}
	switch result := sig.Results().At(0).Type(); {
	case isNamed(result, outcomePath, "HandlerOutcome"):
	case types.Identical(result, types.Universe.Lookup("error").Type()):
		s.returnsError = true
	default:
		return fail(diag.Signature, "%s returns %s: %s", h.name(), types.TypeString(result, types.RelativeTo(r.src.Types)), acceptedShapes)
	}
	if endless(s.payload) {
		r.explain(h.decl)
		return signature{}, false
	}
	return s, true
}

// object finds what the type check made of the declaration. It is nil where another declaration has taken its name.
func (r *resolver) object(decl *ast.FuncDecl) (fn *types.Func, receiver *types.Named) {
	scope := r.src.Types.Scope()
	if decl.Recv == nil {
		fn, _ = scope.Lookup(decl.Name.Name).(*types.Func)
	} else if t := scope.Lookup(receiverName(decl)); t != nil {
		receiver, _ = types.Unalias(t.Type()).(*types.Named)
		if receiver != nil {
			for m := range receiver.Methods() {
				if m.Pos() == decl.Name.Pos() {
					fn = m
				}
			}
		}
	}
	if fn != nil && fn.Pos() != decl.Name.Pos() {
		fn = nil
	}
	return fn, receiver
}

// typeErrors reports what the compiler has against the signature. Errors elsewhere in the package are none of our
// business, most of all those that a missing generated file causes; but where a type of the signature came out invalid
// for a reason that lies elsewhere, such as an import that cannot be found, they are the only explanation there is.
func (r *resolver) typeErrors(decl *ast.FuncDecl, fn *types.Func) bool {
	from, to := decl.Name.Pos(), decl.Type.End()
	if decl.Recv != nil {
		from = decl.Recv.Pos()
	}
	found := false
	for _, e := range r.src.TypeErrors {
		if from <= e.Pos && e.Pos < to {
			r.findings.Add(diag.Diagnostic{Code: diag.TypeError, Pos: e.Position, Message: e.Message})
			found = true
		}
	}
	if found || fn == nil || !hasInvalid(fn.Signature()) {
		return found
	}
	r.explain(decl)
	return true
}

// explain reports all that the compiler has against the package, of which a type in the signature suffers.
func (r *resolver) explain(decl *ast.FuncDecl) {
	if !r.typeErrorsShown {
		r.typeErrorsShown = true
		for _, e := range r.src.TypeErrors {
			r.findings.Add(diag.Diagnostic{Code: diag.TypeError, Pos: e.Position, Message: e.Message})
		}
	}
	r.report(diag.TypeError, place{decl.Name.Pos(), decl.Name.End()}, "the signature of %s uses a type that does not compile", decl.Name.Name)
}

func hasInvalid(sig *types.Signature) bool {
	for _, tuple := range []*types.Tuple{sig.Params(), sig.Results()} {
		for v := range tuple.Variables() {
			if invalid(v.Type()) {
				return true
			}
		}
	}
	return false
}

// invalid looks through what a signature can spell out, not into named types: their fields are the compiler's business.
func invalid(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Kind() == types.Invalid
	case *types.Pointer:
		return invalid(t.Elem())
	case *types.Slice:
		return invalid(t.Elem())
	case *types.Array:
		return invalid(t.Elem())
	case *types.Chan:
		return invalid(t.Elem())
	case *types.Map:
		return invalid(t.Key()) || invalid(t.Elem())
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			if invalid(arg) {
				return true
			}
		}
	}
	return false
}

// isNamed reports whether t is the type of that package and name, under whatever alias it was written.
func isNamed(t types.Type, path, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return false
	}
	obj := named.Obj()
	return obj.Name() == name && obj.Pkg() != nil && obj.Pkg().Path() == path
}
