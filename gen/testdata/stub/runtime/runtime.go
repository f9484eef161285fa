// Package streamrt stands in for the runtime where a script only generates: it has the names that a signature can use,
// and no dependencies. What is generated does not compile against it.
package streamrt

type State[S any] struct{ Value S }
