package diag_test

import (
	"go/token"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/gen/diag"
)

func TestListSortsAndDropsRepetitions(t *testing.T) {
	var l diag.List
	at := func(file string, line, col, offset int) token.Position {
		return token.Position{Filename: file, Line: line, Column: col, Offset: offset}
	}
	l.Add(at("b.go", 1, 1, 0), "third,\n\tgo on")
	l.Add(at("a.go", 10, 2, 7), "second %d", 2)
	l.Add(at("a.go", 10, 2, 0), "second %d", 2)
	l.Add(at("a.go", 9, 3, 0), "first")
	l.Add(token.Position{Filename: "c.go"}, "whole file")
	var got string
	for _, d := range l.Sorted() {
		got += d.String() + "\n"
	}
	want := "a.go:9:3: first\na.go:10:2: second 2\nb.go:1:1: third, go on\nc.go:1:1: whole file\n"
	if got != want {
		t.Errorf(" got %q\nwant %q", got, want)
	}
}

func TestRelative(t *testing.T) {
	root := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(root, "a", "b.go"):       filepath.Join("a", "b.go"),
		filepath.Join(root, "..", "x", "b.go"): filepath.Join("..", "x", "b.go"),
	} {
		if got := diag.Relative(root, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
