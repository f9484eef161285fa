package app

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/millrace-go/millrace/broker"
)

// logStart says in one line what the mount will do, with the values that hold in the end.
func (mt *mount) logStart(c broker.Capabilities) {
	spec := mt.subscription.Spec()
	attrs := []slog.Attr{slog.String(mountAttr, mt.name()), slog.String("source", mt.source.Structure.String()+" "+mt.source.Key)}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("group", mt.source.Group)
	add("task", mt.task())
	add("address", mt.on.broker.Address())
	if mt.source.Reclaim > 0 {
		add("reads", "only what dead owners have left idle for "+mt.source.Reclaim.String())
	}
	add("delays", mt.delays(c))
	if mt.source.DelayTTL > 0 {
		add("delay_ttl", mt.source.DelayTTL.String())
	}
	add("max_attempts", orNone(mt.policy.attempts()))
	if c.Acks {
		add("max_deliveries", orNone(mt.policy.deliveries(mt.source.Claim > 0)))
	}
	letters := orNone(mt.deadLetter)
	if kept := mt.policy.letters; mt.deadLetter != "" && !kept.Keeps() {
		letters += ", keeps " + kept.String()
	}
	add("dead_letter", letters)
	add("out_retry", mt.source.OutRetry)
	add("count_from", mt.countFrom(c))
	add("settles", settles(c))
	if mt.source.Structure == broker.StructureStream {
		add("keeps", mt.policy.retain.String())
	}
	attrs = append(attrs, slog.Int("concurrency", mt.policy.concurrency))
	if mt.source.Structure == broker.StructureStream || mt.source.Structure == broker.StructureList {
		attrs = append(attrs, slog.Duration("block", mt.source.Block))
	}
	attrs = append(attrs, slog.String("timeout", orNone(spec.Timeout)))
	mt.on.app.log.LogAttrs(context.Background(), slog.LevelInfo, "mounted", attrs...)
}

// delays is how a message is kept whose retry is due later.
func (mt *mount) delays(c broker.Capabilities) string {
	most := strconv.Itoa(mt.policy.maxParked)
	switch {
	case c.DelaySet && mt.source.DelaySet == "":
		return "in a set of the list's own"
	case c.DelaySet:
		return "in the set " + mt.source.DelaySet
	case c.InPlace && !c.KeepsPending:
		return "pending, at most " + most
	case c.KeepsPending:
		return "pending for " + c.Claim.String()
	case !c.Acks:
		return "in memory, at most " + most + ", lost by a stop"
	}
	return "in memory, at most " + most
}

// countFrom is where the number of an attempt is read from.
func (mt *mount) countFrom(c broker.Capabilities) string {
	switch {
	case mt.source.Structure != broker.StructureStream:
		return "retry-count"
	case !c.PacksFailures:
		return "retry-count and Redis's delivery count, crashes included"
	}
	return "retry-count and the failures kept in the entry's delivery count"
}

// settles is how an outcome is written.
func settles(c broker.Capabilities) string {
	switch {
	case !c.Acks:
		return "nothing: a message is gone once it is read"
	case c.InSteps:
		return "three steps where a key is in another cluster slot"
	}
	return "one atomic step"
}

// orNone is the value, where there is one.
func orNone[T comparable](v T) string {
	var zero T
	if v == zero {
		return "none"
	}
	return fmt.Sprint(v)
}
