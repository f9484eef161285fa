// Command streamvet reports what streamgen has against the //stream:subscriber directives of a package, as a tool of go
// vet and go fix:
//
//	go vet -vettool=$(which streamvet) ./...
//	go fix -fixtool=$(which streamvet) ./...
//
// Package [github.com/millrace-go/millrace/gen/analyzer] says what it looks at, and docs/vet.md how it is set up.
package main

import (
	"log"
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/millrace-go/millrace/gen/analyzer"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("streamvet: ")
	findings, done, err := checkBroken(os.Args[1:])
	switch {
	case err != nil:
		log.Fatal(err)
	case findings:
		os.Exit(1)
	case !done:
		unitchecker.Main(analyzer.Analyzer)
	}
}
