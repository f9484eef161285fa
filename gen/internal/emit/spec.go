package emit

import (
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/millrace-go/millrace/gen/model"
)

// fields writes the literal of the runtime's Spec: what the directive gives, in the order of the struct.
func fields(s model.Subscription) []jen.Code {
	var list []jen.Code
	text := func(name, value string) {
		if value != "" {
			list = append(list, jen.Id(name).Op(":").Lit(value))
		}
	}
	span := func(name string, d time.Duration) {
		if d != 0 {
			list = append(list, jen.Id(name).Op(":").Add(duration(d)))
		}
	}
	flag := func(name string, set bool) {
		if set {
			list = append(list, jen.Id(name).Op(":").True())
		}
	}
	text("Name", s.Spec.Name)
	text("Stream", s.Spec.Stream)
	text("List", s.Spec.List)
	text("Channel", s.Spec.Channel)
	text("Pattern", s.Spec.Pattern)
	flag("Sharded", s.Spec.Sharded)
	flag("Reliable", s.Spec.Reliable)
	text("Group", s.Spec.Group)
	text("Task", s.Spec.Task)
	flag("Foreign", s.Spec.Foreign)
	span("Claim", s.Spec.Claim)
	span("Reclaim", s.Spec.Reclaim)
	text("Start", s.Spec.Start)
	text("DelaySet", s.Spec.DelaySet)
	span("DelayTTL", s.Spec.DelayTTL)
	span("Block", s.Spec.Block)
	span("Timeout", s.Spec.Timeout)
	return list
}

// duration writes d in the largest unit that it is a whole number of. What is no whole number of milliseconds is
// written as a fraction of one, which is exact: constants have no rounding.
func duration(d time.Duration) *jen.Statement {
	units := []struct {
		name string
		unit time.Duration
	}{{"Hour", time.Hour}, {"Minute", time.Minute}, {"Second", time.Second}, {"Millisecond", time.Millisecond}}
	for _, u := range units {
		if d%u.unit == 0 {
			return times(int64(d/u.unit), u.name)
		}
	}
	for _, per := range []int64{1e3, 1e6} {
		if d%(time.Millisecond/time.Duration(per)) == 0 {
			return times(int64(d)/(int64(time.Millisecond)/per), "Millisecond").Op("/").Lit(int(per))
		}
	}
	panic("unreachable: a duration is a whole number of nanoseconds")
}

func times(n int64, unit string) *jen.Statement {
	if n == 1 {
		return jen.Qual(runtimePath, unit)
	}
	return jen.Lit(int(n)).Op("*").Qual(runtimePath, unit)
}
