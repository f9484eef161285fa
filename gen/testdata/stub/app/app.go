// Package app stands in for the real one where a script only generates.
package app

import streamrt "github.com/millrace-go/millrace/runtime"

type State[S any] = streamrt.State[S]
