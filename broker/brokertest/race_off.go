//go:build !race

package brokertest

// underRace: see the other file.
const underRace = false
