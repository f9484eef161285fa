package resolve

import "go/types"

// endless reports whether a type leads from one instance of a generic type to another one without end, as in
//
//	type Grow[T any] struct{ Next *Grow[[]T] }
//
// The compiler refuses it, yet the type is there, and whoever walks through its fields does not come back.
func endless(t types.Type) bool {
	w := walk{seen: map[types.Type]bool{}, depth: map[*types.TypeName]int{}}
	return w.endless(t)
}

// mostInstances is how many instances of one generic type may lie within each other. Nobody has as many on purpose.
const mostInstances = 10

type walk struct {
	seen map[types.Type]bool
	// depth counts the instances of each generic type on the way to where the walk is.
	depth map[*types.TypeName]int
}

func (w *walk) endless(t types.Type) bool {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		if w.seen[t] {
			return false
		}
		w.seen[t] = true
		if named.TypeArgs().Len() > 0 {
			generic := named.Origin().Obj()
			w.depth[generic]++
			defer func() { w.depth[generic]-- }()
			if w.depth[generic] > mostInstances {
				return true
			}
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return w.endless(u.Elem())
	case *types.Slice:
		return w.endless(u.Elem())
	case *types.Array:
		return w.endless(u.Elem())
	case *types.Chan:
		return w.endless(u.Elem())
	case *types.Map:
		return w.endless(u.Key()) || w.endless(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if w.endless(f.Type()) {
				return true
			}
		}
	}
	return false
}
