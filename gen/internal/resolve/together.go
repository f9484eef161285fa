package resolve

import (
	"slices"

	"github.com/millrace-go/millrace/gen/diag"
)

// reader is what the handlers of one package share where they take each other's messages. One that reclaims takes only
// what the others left, and stands beside them.
type reader struct {
	stream, group string
	reclaims      bool
}

// checkTogether compares the handlers of the package that read one stream with one group. Two packages of a module may
// do so, each on a server of its own; within a package it is a slip, and another group or a task for each is the way out.
func (r *resolver) checkTogether(handlers []handler) {
	readers := map[reader][]handler{}
	for _, h := range handlers {
		if h.directive.Stream == "" {
			continue
		}
		key := reader{h.directive.Stream, h.directive.Group, h.directive.Reclaim != 0}
		others := readers[key]
		readers[key] = append(others, h)
		if len(others) > 0 {
			r.checkShared(h, others)
		}
	}
}

// checkShared compares h with those that read the same stream and group before it.
func (r *resolver) checkShared(h handler, others []handler) {
	group := "without a group, so with the same default,"
	if h.directive.Group != "" {
		group = "as group " + h.directive.Group
	}
	of := func(other handler) []diag.Related {
		return []diag.Related{{Pos: r.position(other.token("stream").from), Message: other.name()}}
	}
	task := h.directive.Task
	if i := slices.IndexFunc(others, func(o handler) bool { return o.directive.Task == task }); i >= 0 {
		other := others[i]
		if task == "" {
			r.add(diag.SharedGroup, h.token("stream"), of(other), "%s reads stream %s %s as %s does, and each would get a part of the messages: give one of them another group, or each a task=NAME",
				h.name(), h.directive.Stream, group, other.name())
		} else {
			r.add(diag.SameTask, h.token("task"), of(other), "%s takes task %s of stream %s %s as %s does, and each would get a part of its messages: give one of them another task, or another group",
				h.name(), task, h.directive.Stream, group, other.name())
		}
		return
	}
	if i := slices.IndexFunc(others, func(o handler) bool { return (o.directive.Task == "") != (task == "") }); i >= 0 {
		r.add(diag.TaskBesideNone, h.token("stream"), of(others[i]), "%s reads stream %s %s as %s does, but only one of them has a task, and the other would take its messages: give each a task=NAME, or one of them another group",
			h.name(), h.directive.Stream, group, others[i].name())
		return
	}
	r.checkAlike(h, others[0], of(others[0]))
}

// checkAlike: what shares a group by task is read together, so what says how has to be the same.
func (r *resolver) checkAlike(h, other handler, related []diag.Related) {
	a, b := &h.directive.Subscriber, &other.directive.Subscriber
	for _, key := range []struct {
		name   string
		differ bool
	}{
		{"start", a.Start != b.Start},
		{"claim", a.Claim != b.Claim},
		{"delay-set", a.DelaySet != b.DelaySet},
		{"delay-ttl", a.DelayTTL != b.DelayTTL},
		{"block", a.Block != b.Block},
	} {
		if key.differ {
			r.add(diag.TasksReadUnlike, h.token(key.name), related, "%s and %s share stream %s by their tasks and are read together, but their %s differ: give both the same",
				h.name(), other.name(), a.Stream, key.name)
		}
	}
}
