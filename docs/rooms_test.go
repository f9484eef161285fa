package docs_test

import (
	"slices"
	"strings"
)

const module = "github.com/millrace-go/millrace"

// room is one package, or several under a pattern that ends in "/...".
type room struct {
	// path is relative to the module.
	path string
	// imports are the packages of this module that its code may import.
	imports []string
	// tests are those that only its tests may import.
	tests []string
	// why says what lives there, so that the next package finds its place.
	why string
}

// live is what a test of a running service may need.
var live = []string{
	"app", "app/apptest", "broker", "broker/embedded", "broker/redisbroker", "broker/redistest", "outcome", "runtime",
}

// rooms is the import table. A package that is missing here fails TestImports: add it with a reason, or better, find the
// room where it belongs. A row may stand before its package does.
var rooms = []room{
	{
		path: "outcome",
		why:  "what a handler answers; the standard library only",
	},
	{
		path: "broker", imports: []string{"outcome"},
		why: "the transport contract: deliveries, settlements, capabilities, errors",
	},
	{
		path: "broker/redisbroker", imports: []string{"broker", "broker/redisbroker/internal/..."}, tests: live,
		why: "Redis and Valkey through go-redis",
	},
	{
		path: "broker/redisbroker/internal/...", imports: []string{"broker", "broker/redisbroker/internal/..."}, tests: live,
		why: "parts of redisbroker that nobody else may use",
	},
	{
		path: "broker/embedded", imports: []string{"broker", "broker/redisbroker"}, tests: live,
		why: "the server inside the process, behind the code of redisbroker",
	},
	{
		path: "broker/redistest", imports: []string{"broker/redisbroker"},
		why: "a real server for a test",
	},
	{
		path: "broker/brokertest", imports: []string{"app", "broker", "broker/redisbroker", "outcome", "runtime"}, tests: live,
		why: "the conformance suite: one body for every server",
	},
	{
		path: "broker/brokertest/chaos", imports: []string{"app", "broker", "broker/redisbroker", "outcome", "runtime"},
		tests: live,
		why:   "crashes and cut connections for the conformance suite",
	},
	{
		path: "broker/deadletter", imports: []string{"broker", "broker/redisbroker"}, tests: live,
		why: "reading, counting, replaying and purging dead letters",
	},
	{
		path: "runtime", imports: []string{"outcome"},
		why: "streamrt: what generated code calls",
	},
	{
		path: "app", imports: []string{"app/internal/...", "broker", "outcome", "runtime"}, tests: live,
		why: "the composition root: brokers, mounts, lifecycle",
	},
	{
		path: "app/internal/dispatch", imports: []string{"app/internal/telemetry", "broker", "outcome", "runtime"},
		why: "the engine of one mount",
	},
	{
		path: "app/internal/telemetry", imports: []string{"broker"}, tests: live,
		why: "metrics and traces through OpenTelemetry",
	},
	{
		path: "app/apptest",
		imports: []string{
			"app", "app/internal/...", "broker", "broker/embedded", "broker/redisbroker", "outcome", "runtime",
		},
		tests: live,
		why:   "the harness: an app on the paused clock, or on a live server",
	},
	{
		path: "gen",
		imports: []string{
			"gen/diag", "gen/directive", "gen/internal/asyncapi", "gen/internal/emit", "gen/internal/genfile", "gen/internal/load",
			"gen/internal/output", "gen/internal/resolve", "gen/model",
		},
		why: "the generator as a library",
	},
	{
		path: "gen/directive", imports: []string{"gen/diag"},
		why: "the syntax of a directive, without types",
	},
	{
		path: "gen/diag",
		why:  "findings with positions",
	},
	{
		path: "gen/model", imports: []string{"gen/directive"},
		why: "what the directives of a package come to, for whatever is generated from it",
	},
	{
		path: "gen/internal/genfile",
		why:  "the name and header of a generated file, which three stages must agree on",
	},
	{
		path: "gen/internal/load", imports: []string{"gen/diag", "gen/directive", "gen/internal/genfile"},
		why: "packages with their directives",
	},
	{
		path: "gen/internal/resolve",
		imports: []string{
			"gen/diag", "gen/directive", "gen/internal/flat", "gen/internal/genfile", "gen/internal/load", "gen/model",
		},
		why: "types to the model",
	},
	{
		path: "gen/internal/flat",
		why:  "what codec=fields fills of a struct, on which the check of payloads and their schemas must agree",
	},
	{
		path: "gen/internal/emit", imports: []string{"gen/internal/genfile", "gen/model"},
		why: "the model to code; the only importer of jennifer",
	},
	{
		path: "gen/internal/asyncapi", imports: []string{"gen/diag", "gen/directive", "gen/internal/flat", "gen/model"},
		tests: []string{"gen", "gen/internal/asyncapi/testdata/...", "runtime"},
		why:   "the model to an AsyncAPI document, which needs types and comments but nothing that code generation has",
	},
	{
		path: "gen/internal/output", imports: []string{"gen/diag", "gen/internal/genfile"},
		why: "files on disk, whole or not at all",
	},
	{
		path: "gen/analyzer", imports: []string{"gen/diag", "gen/directive", "gen/internal/...", "gen/model"}, tests: []string{"gen"},
		why: "the findings as a go/analysis pass, for drivers that load packages themselves",
	},
	{
		path: "cmd/streamgen", imports: []string{"gen", "gen/diag"},
		why: "the generator's main",
	},
	{
		path: "cmd/streamvet", imports: []string{"gen/analyzer"},
		why: "the analyzer's main, which go vet runs",
	},
	{
		path: "cmd/streamctl", imports: []string{"broker", "broker/deadletter", "broker/redisbroker"}, tests: live,
		why: "the operator's tool",
	},
	{
		path: "examples/...", imports: []string{
			"app", "broker", "broker/deadletter", "broker/embedded", "broker/redisbroker", "examples/...", "outcome", "runtime",
		},
		tests: live,
		why:   "services as users write them, so public packages only; what their demonstrations share is examples/internal/stage",
	},
	{
		path: "docs", tests: live,
		why: "the guides and the tests that hold them and this table",
	},
	{
		path: "docs/snippets", imports: []string{"app", "broker", "outcome", "runtime"}, tests: slices.Concat(live, []string{"broker/deadletter"}),
		why: "what the guides show and the examples do not have: handlers as users write them, so public packages only",
	},
	{
		path: "docs/snippets/...", imports: []string{"app", "broker", "broker/embedded", "broker/redisbroker", "outcome", "runtime"},
		tests: live,
		why:   "programs that a guide shows whole",
	},
}

// fence says who may reach a module outside this one.
type fence struct {
	// module is an import path, and everything under it.
	module string
	// importers name it in their code or, unless testsToo, in their tests.
	importers []string
	testsToo  bool
	// linkers reach it through other packages, importers included.
	linkers []string
	why     string
}

var fences = []fence{
	{
		module: "github.com/dave/jennifer", importers: []string{"gen/internal/emit"},
		linkers: []string{"gen/internal/emit", "gen", "gen/analyzer", "cmd/streamgen", "cmd/streamvet"},
		why:     "only gen/internal/emit turns the model into code",
	},
	{
		module: "golang.org/x/tools", importers: []string{"gen/internal/load", "gen/internal/resolve", "gen/analyzer", "cmd/streamvet"},
		linkers: []string{
			"gen", "gen/analyzer", "gen/internal/emit", "gen/internal/load", "gen/internal/resolve", "cmd/streamgen",
			"cmd/streamvet",
		},
		why: "a service does not carry the type checker",
	},
	{
		module: "github.com/alicebob/miniredis", importers: []string{"broker/embedded"},
		linkers: []string{"broker/embedded", "app/apptest", "docs/snippets/...", "examples/..."},
		why:     "a service links the in-process server only by importing broker/embedded itself",
	},
	{
		module: "github.com/testcontainers", importers: []string{"broker/redistest"},
		linkers: []string{"broker/redistest"},
		why:     "only broker/redistest starts containers, and only tests import it",
	},
	{
		module: "github.com/moby/moby", importers: []string{"broker/redistest"},
		linkers: []string{"broker/redistest"},
		why:     "Docker's client belongs to broker/redistest",
	},
	{
		module: "github.com/spf13", importers: []string{"cmd/streamctl"}, linkers: []string{"cmd/streamctl"},
		why: "flags and commands of the operator's tool; a service does not carry them",
	},
	{
		module: "github.com/schollz/progressbar", importers: []string{"cmd/streamctl"}, linkers: []string{"cmd/streamctl"},
		why: "what the operator's tool draws",
	},
	{
		module: "github.com/redis/go-redis",
		importers: []string{
			"broker/redisbroker", "broker/redisbroker/internal/...", "broker/embedded", "broker/redistest",
			"broker/brokertest", "broker/brokertest/chaos", "broker/deadletter", "app/apptest", "cmd/streamctl", "examples/...",
		},
		testsToo: true, // a live test looks at the server itself
		linkers: []string{
			"broker/redisbroker", "broker/redisbroker/internal/...", "broker/embedded", "broker/redistest",
			"broker/brokertest", "broker/brokertest/chaos", "broker/deadletter", "app/apptest", "cmd/streamctl", "docs/snippets/...",
			"examples/...",
		},
		why: "app, runtime, outcome, the transport contract and so handler packages know no client",
	},
}

// matches says whether a package falls under a row's path.
func matches(path, pkg string) bool {
	if prefix, ok := strings.CutSuffix(path, "/..."); ok {
		return strings.HasPrefix(pkg, prefix+"/")
	}
	return path == pkg
}

// anyMatches says whether a package falls under one of several paths.
func anyMatches(paths []string, pkg string) bool {
	for _, path := range paths {
		if matches(path, pkg) {
			return true
		}
	}
	return false
}
