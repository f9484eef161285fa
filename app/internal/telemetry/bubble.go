package telemetry

import (
	"bytes"
	"runtime"
	"time"
)

// bubble names the bubble of testing/synctest that the goroutine is in, "" outside of any. What belongs to a bubble must not
// be touched from elsewhere (the runtime ends the program), and whoever collects from a meter provider that a whole test
// binary shares is in another one, or in none.
func bubble() string {
	now := time.Now()
	if now != now.Round(0) { // not Equal, which leaves out the monotonic reading
		return ""
	}
	// Only the clock of a bubble has none. Its number stands in the first line of a stack, and nowhere else:
	// goroutine 7 [running, synctest bubble 4]:
	stack := make([]byte, 128)
	stack = stack[:runtime.Stack(stack, false)]
	_, name, _ := bytes.Cut(stack, []byte(", synctest "))
	name, _, _ = bytes.Cut(name, []byte("]"))
	return "in " + string(name)
}
