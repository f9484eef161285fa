package app_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func list(key string) streamrt.Spec     { return streamrt.Spec{Name: key, List: key} }
func channel(name string) streamrt.Spec { return streamrt.Spec{Name: name, Channel: name} }

func plain(s streamrt.Spec) streamrt.Subscription { return with(s, func(*streamrt.Spec) {}) }

func task(name string, change func(*streamrt.Spec)) streamrt.Subscription {
	s := spec("jobs")
	s.Name, s.Task = "t."+name, name
	return with(s, change)
}

func same(*streamrt.Spec) {}

var badSources = map[string]badStart{
	"no source": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "nowhere"}))
	}, []string{"mount nowhere:", "no source", "list=KEY"}},
	"two sources": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "both", Stream: "s", List: "l"}))
	}, []string{"mount both:", "a stream and a list"}},
	"a list with a group": {func(m *app.Mounts) {
		m.Mount(with(list("l"), func(s *streamrt.Spec) { s.Group = "g" }))
	}, []string{"mount l:", "group=g", "leave it out"}},
	"a claiming channel": {func(m *app.Mounts) {
		m.Mount(with(channel("c"), func(s *streamrt.Spec) { s.Claim = time.Second }))
	}, []string{"mount c:", "claim=1s", "leave it out"}},
	"a reliable stream": {func(m *app.Mounts) {
		m.Mount(with(spec("s"), func(s *streamrt.Spec) { s.Reliable = true }))
	}, []string{"mount s:", "reliable", "list"}},
	"a sharded list": {func(m *app.Mounts) {
		m.Mount(with(list("l"), func(s *streamrt.Spec) { s.Sharded = true }))
	}, []string{"mount l:", "sharded", "channel"}},
	"a delay set on a plain list": {func(m *app.Mounts) {
		m.Mount(with(list("l"), func(s *streamrt.Spec) { s.DelaySet = "z" }))
	}, []string{"mount l:", "delay-set=z", "reliable"}},
	"a delay set on a foreign stream": {func(m *app.Mounts) {
		m.Mount(with(spec("s"), func(s *streamrt.Spec) { s.Foreign, s.DelaySet = true, "z" }))
	}, []string{"mount s:", "delay-set=z", "foreign"}},
	"a pattern without OutRetry": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "p", Pattern: "events.*"}))
	}, []string{"mount p:", "events.*", "OutRetry(channel)"}},
	"an OutRetry without a pattern": {func(m *app.Mounts) {
		m.Mount(plain(channel("c")), app.OutRetry("x"))
	}, []string{"mount c:", `OutRetry("x")`}},
	"a channel that is its own dead letter": {func(m *app.Mounts) {
		m.Mount(plain(channel("c")), app.DeadLetter("c"))
	}, []string{"mount c:", "source itself"}},
	"two mounts on one list": {func(m *app.Mounts) {
		m.Mount(plain(list("l")))
		m.Mount(with(list("l"), func(s *streamrt.Spec) { s.Name = "again" }))
	}, []string{"mount again:", "list l"}},
	"a list and a stream on one key": {func(m *app.Mounts) {
		m.Mount(plain(list("k")))
		m.Mount(with(spec("k"), func(s *streamrt.Spec) { s.Name = "stream" }))
	}, []string{"mount stream:", "two keys"}},
	"a plain group on a foreign stream": {func(m *app.Mounts) {
		m.Mount(with(spec("s"), func(s *streamrt.Spec) { s.Foreign = true }))
		m.Mount(with(spec("s"), func(s *streamrt.Spec) { s.Name, s.Group = "second", "g2" }))
	}, []string{"mount second:", "foreign", "directive"}},
	"a dead letter on a foreign stream": {func(m *app.Mounts) {
		m.Mount(with(spec("s"), func(s *streamrt.Spec) { s.Foreign = true }))
		m.Mount(plain(spec("other")), app.DeadLetter("s"))
	}, []string{"mount other:", "dead letter s", "foreign"}},
	"the same task twice": {func(m *app.Mounts) {
		m.Mount(task("a", same))
		m.Mount(task("a", func(s *streamrt.Spec) { s.Name = "again" }))
	}, []string{"mount again:", "task a"}},
	"one without a task": {func(m *app.Mounts) {
		m.Mount(task("a", same))
		m.Mount(plain(spec("jobs")))
	}, []string{"mount jobs:", "only one of them names a task"}},
	"tasks that read differently": {func(m *app.Mounts) {
		m.Mount(task("a", same))
		m.Mount(task("b", func(s *streamrt.Spec) { s.Block = time.Second }))
	}, []string{"mount t.b:", "block"}},
	"tasks that give up at different times": {func(m *app.Mounts) {
		m.Mount(task("a", same), app.UnknownTaskTimeout(time.Hour))
		m.Mount(task("b", same), app.UnknownTaskTimeout(time.Minute))
	}, []string{"mount t.b:", "UnknownTaskTimeout"}},
	"no time for the unknown": {func(m *app.Mounts) {
		m.Mount(task("a", same), app.UnknownTaskDelay(-time.Second))
	}, []string{"mount t.a:", "UnknownTaskDelay(-1s)"}},
	"a task of a foreign stream": {func(m *app.Mounts) {
		m.Mount(task("a", func(s *streamrt.Spec) { s.Foreign = true }))
	}, []string{"mount t.a:", "foreign"}},
	"a reclaimed task": {func(m *app.Mounts) {
		m.Mount(task("a", func(s *streamrt.Spec) { s.Reclaim = time.Minute }))
	}, []string{"mount t.a:", "reclaim=1m0s"}},
}

func TestEachBadSourceIsOneProblem(t *testing.T) { eachIsOneProblem(t, badSources) }
