// Package output is where the generator touches the disk. It first finds out what has to change, then changes all of it
// or nothing, so that a run that fails leaves every file as it was.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-go/millrace/gen/internal/genfile"
)

// Change is what has to happen to the generated file of one package.
type Change struct {
	// Path is the file.
	Path string
	// Before is what it holds, nil where there is none.
	Before []byte
	// Content is what it has to hold, nil where it has to go.
	Content []byte
}

// Plan compares what the package in dir has with what it should have, nil for no file at all. It returns false where
// nothing has to be done: the file is as it should be, or it is somebody else's and nothing is wanted in its place. Line
// ends do not count, for a checkout on Windows has its own.
func Plan(dir string, want []byte) (Change, bool, error) {
	path := filepath.Join(dir, genfile.Name)
	have, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Path: path, Content: want}, want != nil, nil
	case err != nil:
		return Change{}, false, err
	case !genfile.Ours(have) && want != nil:
		return Change{}, false, fmt.Errorf("%s was not written by streamgen, which does not overwrite it", path)
	case !genfile.Ours(have):
		return Change{}, false, nil
	}
	have = append([]byte{}, genfile.Normal(have)...) // never nil: an empty file is a file
	return Change{path, have, want}, want == nil || !bytes.Equal(have, want), nil
}

// PlanFile is Plan for a file that is the caller's to overwrite, whatever it holds. A symbolic link stays, and what it
// leads to is replaced.
func PlanFile(path string, want []byte) (Change, bool, error) {
	path = followed(path)
	have, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Path: path, Content: want}, true, nil
	case err != nil:
		return Change{}, false, err
	}
	have = append([]byte{}, genfile.Normal(have)...)
	return Change{path, have, want}, !bytes.Equal(have, want), nil
}

// followed returns what a path leads to, whether or not it is there.
func followed(path string) string {
	const circle = 40 // as many links are one to Linux
	for range circle {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// read returns what a file holds that may be replaced. Replacing a device would put a file in its place, and reading a pipe
// would wait for whoever writes to it.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: remove it, for a file of this name is to be written", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file, and is not replaced by one", path)
	}
	return os.ReadFile(path)
}

// Apply makes all the changes. Each file is replaced in one step: a reader, or a build that runs at the same time, sees
// the old content or the new one, never a part. Everything new is on the disk before the first file is replaced, and
// where a replacement fails those before it are taken back. A file that was to be removed and is gone is as it should be.
func Apply(changes []Change) (err error) {
	staged := make([]*staging, 0, len(changes))
	defer func() {
		for _, s := range staged {
			s.discard()
		}
	}()
	for _, c := range changes {
		s, err := stage(c)
		if err != nil {
			return fmt.Errorf("write %s: %w", c.Path, err)
		}
		staged = append(staged, s)
	}
	for i, s := range staged {
		if err := s.commit(); err != nil {
			err = fmt.Errorf("write %s: %w", s.path, err)
			for _, done := range staged[:i] {
				err = errors.Join(err, done.restore())
			}
			return err
		}
	}
	return nil
}

// staging is a change whose new content lies beside the file, as does a copy of the old one.
type staging struct {
	path string
	// next and last are empty where there is no such file.
	next, last string
}

func stage(c Change) (*staging, error) {
	s := &staging{path: c.Path}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(c.Path); err == nil {
		mode = info.Mode().Perm()
		old, err := os.ReadFile(c.Path) // c.Before has other line ends
		if err != nil {
			return nil, err
		}
		if s.last, err = s.temporary(old, mode); err != nil {
			return nil, err
		}
	}
	if c.Content != nil {
		var err error
		if s.next, err = s.temporary(c.Content, mode); err != nil {
			s.discard()
			return nil, err
		}
	}
	return s, nil
}

// temporary writes a file beside the one it is about. The name begins with a dot, so that the go command never takes it
// for a source file.
func (s *staging) temporary(content []byte, mode os.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(s.path), temporaries(s.path))
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func (s *staging) commit() error {
	if s.next == "" {
		if err := os.Remove(s.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	err := os.Rename(s.next, s.path)
	if err == nil {
		s.next = ""
	}
	return err
}

// restore takes a commit back.
func (s *staging) restore() error {
	if s.last == "" {
		return os.Remove(s.path)
	}
	err := os.Rename(s.last, s.path)
	if err == nil {
		s.last = ""
	}
	return err
}

// temporaries is the pattern of the names under which a file's contents wait.
func temporaries(path string) string { return "." + filepath.Base(path) + ".*.tmp" }

// abandoned is how old a temporary file is that nobody is going to need: a run has its own for a moment only.
const abandoned = time.Minute

// Sweep removes what runs that were killed have left beside the file.
func Sweep(path string) {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir)
	before, after, _ := strings.Cut(temporaries(path), "*")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), before) || !strings.HasSuffix(e.Name(), after) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// discard removes what lies beside the file. What cannot be removed does no harm.
func (s *staging) discard() {
	for _, name := range []string{s.next, s.last} {
		if name != "" {
			_ = os.Remove(name)
		}
	}
}
