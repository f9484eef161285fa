//go:build race

package brokertest

// underRace: the race detector makes everything several times slower, so that bounds on lateness mean nothing.
const underRace = true
