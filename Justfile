# The commands of the repository. `just` alone lists them; CONTRIBUTING.md says what they need.

_default:
  @just --list --unsorted

# format, generated files, vet and lint: what a review should not have to find
check:
  test -z "$(git ls-files -z '*.go' | xargs -0 gofmt -l | tee /dev/stderr)"
  go run ./cmd/streamgen --check ./...
  go vet ./...
  golangci-lint run ./... ./.ci/testsummary ./.ci/mutants

# every test that this machine can run; names what to install for the rest
test *args:
  @go run ./.ci/testsummary {{ args }} ./...

# the same, and a test that finds no server fails
test-redis *args:
  @MILLRACE_REQUIRE_REDIS=1 go run ./.ci/testsummary {{ args }} ./...

# write every stream_gen.go of the repository anew
generate:
  go run ./cmd/streamgen ./...

# the engine against a bare client loop
bench:
  go test -run '^$' -bench . ./app/...

# break each promise in a copy of the tree, and see that a test notices
mutants:
  go run ./.ci/mutants

# the chaos suite at length: kills, freezes, stops and outages on every server of the matrix (MILLRACE_SOAK=30m: about that long)
soak *args:
  MILLRACE_SOAK="${MILLRACE_SOAK:-1}" MILLRACE_REQUIRE_REDIS=1 go test -count=1 -timeout 2h -v ./broker/brokertest/chaos {{ args }}

# everything that continuous integration runs, in its order
ci:
  .ci/run
