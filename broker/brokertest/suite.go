// Package brokertest is the conformance suite of servers: what every server has to show before the library's promises
// hold on it. It runs whole apps on a server and then asks the server itself, through a client of its own, what became
// of the messages. It is the suite that the library is tested with.
//
//	func TestMyServer(t *testing.T) {
//		brokertest.Run(t, brokertest.Target{
//			Name:   "mine",
//			Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(url, o...) },
//			Client: client,
//		})
//	}
//
// [Run] runs every area, and each area is a function of its own: [Outcomes], [Recovery], [Losses] and so on. An area is
// a few bodies, each of which is a subtest that is named by what it shows:
//
//	go test -run 'TestMyServer/Losses/DeathsAreNoAttempts'
//
// The bodies share the server and its database, use keys of their own, all of which begin with "brokertest.", and leave
// them behind. They run side by side as far as -parallel allows; most of the time they wait, so that a value above the
// number of processors makes the suite faster. Those that would disturb others run before them and one after the other.
// All of it takes a minute with -parallel 8.
//
// What a server cannot do is said in the target, and the bodies that need it are skipped with that reason. A server of
// which the library is to keep all its promises lacks nothing.
//
// # Adding an area
//
// A new area is one file and one line: the file holds an exported function, the area behind it and its bodies, as
// attempts.go does, and the line stands in the table areas. A test of the suite finds a function whose line is missing.
package brokertest

import "testing"

// areas are what Run runs, in this order.
var areas = []area{
	delaysArea,
	connectionsArea,
	outcomesArea,
	attemptsArea,
	durationsArea,
	fieldsArea,
	groupsArea,
	sharingArea,
	handoverArea,
	deadLettersArea,
	retentionArea,
	leasesArea,
	lossesArea,
	recoveryArea,
	lostGroupsArea,
	stopsArea,
	orderArea,
	malformedArea,
	tasksArea,
	foreignArea,
	listsArea,
	reliableListsArea,
	channelsArea,
	troublesArea,
	healthArea,
	idleCostArea,
}

// Run runs every area on the target as a subtest of its name. Those that disturb nobody are parallel subtests, as the
// bodies of every area are: they run when the test that called Run has returned, so that whatever the target needs is
// closed in a t.Cleanup and not by a defer.
//
// The library counts through the global OpenTelemetry meter provider, which the suite replaces by one that it can read.
func Run(t *testing.T, target Target) {
	t.Helper()
	for _, a := range areas {
		if len(a.on(target)) == 0 {
			continue // nothing of it can be shown on the paused clock
		}
		t.Run(a.name, func(t *testing.T) {
			if !a.alone() && target.bubble == nil {
				t.Parallel()
			}
			a.run(t, target)
		})
	}
}

// area is one promise of the library and the bodies that hold a server to it.
type area struct {
	// name is that of the exported function.
	name   string
	bodies []body
}

// body is one test that runs on every server.
type body struct {
	// name says what the body shows.
	name string
	run  func(t *testing.T, target Target)
	// paused: the body also runs on the paused clock, where it has no subtests and everything takes no time.
	paused bool
	// alone: nothing else may run on the target's server meanwhile.
	alone bool
	// needs are what a server may lack; without one of them the body is skipped.
	needs []Feature
	// own: the body takes a server of its own from Target.Own.
	own bool
}

// run runs the bodies that the target can run, as subtests.
func (a area) run(t *testing.T, target Target) {
	t.Helper()
	if target.bubble != nil {
		for _, b := range a.on(target) {
			t.Run(b.name, func(t *testing.T) { target.bubble(t, b.run) })
		}
		return
	}
	if target.Broker == nil || target.Client == nil {
		t.Fatalf("brokertest: the target %q has no Broker or no Client: set both", target.Name)
	}
	for _, b := range a.bodies {
		t.Run(b.name, func(t *testing.T) {
			target.skipUnlessFit(t, b)
			if !b.alone {
				t.Parallel()
			}
			b.run(t, target)
		})
	}
}

// on returns the bodies that the target's clock allows.
func (a area) on(target Target) []body {
	if target.bubble == nil {
		return a.bodies
	}
	var bodies []body
	for _, b := range a.bodies {
		if b.paused {
			bodies = append(bodies, b)
		}
	}
	return bodies
}

// alone tells whether the area has a body beside which nothing else may run.
func (a area) alone() bool {
	for _, b := range a.bodies {
		if b.alone {
			return true
		}
	}
	return false
}
