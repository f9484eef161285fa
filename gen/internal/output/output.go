// Package output is where the generator touches the disk. It first finds out what has to change, then changes it, so
// that a run with findings can stop between the two.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/gen/internal/genfile"
)

// Change is what has to happen to the generated file of one package.
type Change struct {
	// Path is the file.
	Path string
	// Content is what it has to hold, nil where it has to go.
	Content []byte
}

// Plan compares what the package in dir has with what it should have, nil for no file at all. It returns false where
// nothing has to be done: the file is as it should be, or it is somebody else's and nothing is wanted in its place.
func Plan(dir string, want []byte) (Change, bool, error) {
	path := filepath.Join(dir, genfile.Name)
	have, err := os.ReadFile(path)
	switch {
	case os.IsNotExist(err):
		return Change{path, want}, want != nil, nil
	case err != nil:
		return Change{}, false, err
	case !genfile.Ours(have) && want != nil:
		return Change{}, false, fmt.Errorf("%s was not written by streamgen, which does not overwrite it", path)
	case !genfile.Ours(have):
		return Change{}, false, nil
	case want == nil:
		return Change{path, nil}, true, nil
	}
	return Change{path, want}, !bytes.Equal(have, want), nil
}

// Apply makes the change. The file is replaced in one step: a reader, or a build that runs at the same time, sees the
// old content or the new one, never a part.
func (c Change) Apply() error {
	if c.Content == nil {
		return os.Remove(c.Path)
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(c.Path); err == nil {
		mode = info.Mode().Perm()
	}
	// The name begins with a dot, so that the go command never takes it for a source file.
	tmp, err := os.CreateTemp(filepath.Dir(c.Path), "."+genfile.Name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(c.Content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), c.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
