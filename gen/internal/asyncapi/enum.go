package asyncapi

import (
	"cmp"
	"encoding/json"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// constants returns the constants of a type that its package declares, by value and name, each value once. Those that
// only the package can name do not count, unless nobody else can name the type either.
func constants(t *types.Named) []*types.Const {
	obj := t.Obj()
	if b, ok := t.Underlying().(*types.Basic); !ok || obj.Pkg() == nil || b.Info()&(types.IsString|types.IsInteger) == 0 {
		return nil
	}
	var found []*types.Const
	for _, name := range obj.Pkg().Scope().Names() {
		c, ok := obj.Pkg().Scope().Lookup(name).(*types.Const)
		if ok && types.Identical(c.Type(), t) && c.Exported() == obj.Exported() && c.Val().Kind() != constant.Unknown {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b *types.Const) int { return compare(a.Val(), b.Val()) })
	found = slices.CompactFunc(found, func(a, b *types.Const) bool { return compare(a.Val(), b.Val()) == 0 })
	if areFlags(found) {
		return nil
	}
	return found
}

func compare(a, b constant.Value) int {
	if a.Kind() == constant.String {
		return cmp.Compare(constant.StringVal(a), constant.StringVal(b))
	}
	switch {
	case constant.Compare(a, token.LSS, b):
		return -1
	case constant.Compare(a, token.GTR, b):
		return 1
	}
	return 0
}

// areFlags reports whether the values are bits to be combined: 1, 2, 4 and so on, with or without 0.
func areFlags(found []*types.Const) bool {
	bits := 0
	for _, c := range found {
		n, exact := constant.Uint64Val(constant.ToInt(c.Val()))
		switch {
		case c.Val().Kind() != constant.Int, !exact, n&(n-1) != 0:
			return false
		case n != 0:
			bits++
		}
	}
	return bits >= 3
}

// addEnum lists the constants of the type. Numbers say little, so their names stand beside them.
func addEnum(s *Schema, t *types.Named) {
	for _, c := range constants(t) {
		if c.Val().Kind() == constant.String {
			s.Enum = append(s.Enum, constant.StringVal(c.Val()))
			continue
		}
		s.Enum = append(s.Enum, json.Number(c.Val().ExactString()))
		s.EnumNames = append(s.EnumNames, c.Name())
	}
	if len(s.Enum) > 0 { // which say more than the bounds of the Go type
		s.Minimum, s.Maximum = nil, nil
	}
}
