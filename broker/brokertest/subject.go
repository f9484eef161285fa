package brokertest

import (
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/app"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// subject is a subscription under test with keys and a handler of its own. What tells it from the others of its service
// stands in its name, and, where the body needs it again, in a variant or another struct around it.
type subject struct {
	name string
	mode
	keys
	*recorder
	// subscription may be changed until the subject is mounted.
	subscription streamrt.Spec

	service *service
}

// subject prepares a subscription of that mode; its handler's answers are the recorder's.
func (s *service) subject(name string, m mode, r *recorder) *subject {
	k := uniqueKeys()
	if name != "" {
		name = ", " + name
	}
	one := &subject{m.name + name, m, k, r, m.spec(k), s}
	s.subjects = append(s.subjects, one)
	return one
}

// variant is a subject with what tells it from the others of its mode.
type variant[V any] struct {
	*subject
	is V
}

// inEveryMode prepares a subject for each way to keep delays and each variant. prepare gives its handler the answers and
// mounts it.
func inEveryMode[V any](s *service, variants []V, prepare func(c variant[V])) []variant[V] {
	var all []variant[V]
	for _, m := range modes {
		for _, v := range variants {
			c := variant[V]{s.subject(fmt.Sprint(v), m, &recorder{}), v}
			prepare(c)
			all = append(all, c)
		}
	}
	return all
}

// mount mounts it on its service.
func (one *subject) mount(options ...app.MountOption) {
	one.service.mount(one.subscription, one.recorder, options...)
}

// playOut lets the service handle one message for each of its subjects until the server has nothing left to hand out,
// and stops it.
func (s *service) playOut(t testing.TB, body []byte) {
	t.Helper()
	s.start(t)
	for _, one := range s.subjects {
		s.publish(t, one.stream, body)
	}
	s.rest(t)
}

// rest waits until the server has nothing left to hand out to any of the subjects, and stops the service.
func (s *service) rest(t testing.TB) {
	t.Helper()
	for _, one := range s.subjects {
		awaitRest(t, s.target, one.keys)
	}
	s.stop(t)
}

// letters returns the dead letters of the subject.
func (one *subject) letters(t testing.TB) []entry {
	t.Helper()
	return mustEntries(t, one.service.target, one.deadLetter)
}

// source returns what stands on the stream of the subject.
func (one *subject) source(t testing.TB) []entry {
	t.Helper()
	return mustEntries(t, one.service.target, one.stream)
}
