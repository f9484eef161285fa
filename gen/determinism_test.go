package gen_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/gen"
)

// TestTheSameSourceGivesTheSameBytes generates for 40 handlers in 10 files: in two checkouts, with the handlers in other
// files and in another order each time, on one processor and on all of them, over an old file of any state.
func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	runs := 30
	if testing.Short() {
		runs = 4
	}
	random := rand.New(rand.NewPCG(1, 2))
	checkouts := []string{module(t, map[string]string{}), module(t, map[string]string{"deeper/go.mod": ""})}
	checkouts[1] = filepath.Join(checkouts[1], "deeper")
	if err := os.WriteFile(filepath.Join(checkouts[1], "go.mod"), []byte("module example.com/m\n\ngo 1.26.0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	sums := map[[sha256.Size]byte]int{}
	for i := range runs {
		dir := checkouts[i%2]
		writeShuffled(t, dir, random)
		generated := filepath.Join(dir, "p", "stream_gen.go")
		switch old, err := os.ReadFile(generated); {
		case err == nil && i%3 == 0:
			err = os.WriteFile(generated, old[:len(old)/(1+i%5)], 0o666)
			if err != nil {
				t.Fatal(err)
			}
		case err == nil && i%3 == 1:
			if err := os.Remove(generated); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GOMAXPROCS(1 + i%2*3)
		report, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
		if err != nil || len(report.Findings) > 0 {
			t.Fatal(err, report.Findings)
		}
		content, err := os.ReadFile(generated)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(content), "\nvar "); n != 40 {
			t.Fatalf("%d variables", n)
		}
		sums[sha256.Sum256(content)]++
	}
	if len(sums) != 1 {
		t.Errorf("%d different files in %d runs", len(sums), runs)
	}
	for _, dir := range checkouts {
		generated := filepath.Join(dir, "p", "stream_gen.go")
		long := time.Now().Add(-time.Hour).Truncate(time.Second)
		if err := os.Chtimes(generated, long, long); err != nil {
			t.Fatal(err)
		}
		run(t, dir)
		if info, err := os.Stat(generated); err != nil || !info.ModTime().Equal(long) {
			t.Errorf("%s was touched: %v", generated, err)
		}
	}
}

// writeShuffled deals 40 handlers out to 10 files.
func writeShuffled(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "p"), 0o777); err != nil {
		t.Fatal(err)
	}
	files := make([]strings.Builder, 10)
	for i, handler := range random.Perm(40) {
		f := &files[i%10]
		if f.Len() == 0 {
			f.WriteString("package p\n\nimport \"context\"\n")
		}
		receiver := ""
		if handler%4 == 0 {
			receiver = "(*Service) "
		}
		fmt.Fprintf(f, "\n//stream:subscriber stream=s%d group=g timeout=%ds\nfunc %sH%d(context.Context, map[string]int) error { return nil }\n",
			handler, 1+handler, receiver, handler)
	}
	files[random.IntN(10)].WriteString("\ntype Service struct{}\n")
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, "p", fmt.Sprintf("f%d.go", i)), []byte(files[i].String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
