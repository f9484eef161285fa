package load

import (
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
)

// unbuilt finds the folders under the patterns that the go command passes over without a word because build constraints
// leave nothing of them, and returns those with directives: to a user they are as good as any other.
func unbuilt(dir string, patterns []string, listed []*packages.Package) ([]*Package, error) {
	known := map[string]bool{}
	var ignored ignores
	for _, p := range listed {
		known[p.Dir] = true
		if m := p.Module; m != nil && m.Main {
			ignored.read(m.GoMod)
		}
	}
	var found []*Package
	for _, pattern := range patterns {
		root, tree := strings.CutSuffix(filepath.ToSlash(pattern), "/...")
		if !tree || !filepath.IsAbs(root) && root != "." && !strings.HasPrefix(root, "./") && !strings.HasPrefix(root, "../") && root != ".." {
			continue
		}
		if !filepath.IsAbs(root) {
			root = filepath.Join(dir, root)
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if path != root && (goSkips(path) || ignored.match(path)) {
				return filepath.SkipDir
			}
			if known[path] || !hasGoFiles(path) {
				return nil
			}
			known[path] = true
			s, err := scanDir(path)
			if err != nil || !s.mentions || isOneOf(path, listed) {
				return err
			}
			fset := token.NewFileSet()
			found = append(found, &Package{Dir: path, Generated: s.generated, Source: &Source{
				Path: path, Name: s.name(), Fset: fset, Outside: s.outside(fset, nil), Types: types.NewPackage(path, s.name()),
			}})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// goSkips reports whether "..." does not reach into the folder.
func goSkips(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

// isOneOf is for the folder that the go command knows under another path, through a symbolic link.
func isOneOf(path string, listed []*packages.Package) bool {
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(listed, func(p *packages.Package) bool {
		other, err := os.Stat(p.Dir)
		return err == nil && os.SameFile(info, other)
	})
}

// ignores are the folders that go.mod files tell the go command to leave alone.
type ignores struct {
	// seen are the go.mod files that were read.
	seen map[string]bool
	// under are folders, anywhere are the last elements of paths.
	under, anywhere []string
}

func (i *ignores) read(goMod string) {
	if i.seen[goMod] {
		return
	}
	if i.seen == nil {
		i.seen = map[string]bool{}
	}
	i.seen[goMod] = true
	content, err := os.ReadFile(goMod)
	if err != nil {
		return
	}
	file, err := modfile.ParseLax(goMod, content, nil)
	if err != nil {
		return // the go command has accepted it, so it is too new for this parser
	}
	for _, ignore := range file.Ignore {
		if path, rooted := strings.CutPrefix(ignore.Path, "./"); rooted {
			i.under = append(i.under, filepath.Join(filepath.Dir(goMod), filepath.FromSlash(path)))
		} else {
			i.anywhere = append(i.anywhere, string(filepath.Separator)+filepath.FromSlash(ignore.Path))
		}
	}
}

func (i *ignores) match(path string) bool {
	return slices.Contains(i.under, path) ||
		slices.ContainsFunc(i.anywhere, func(tail string) bool { return strings.HasSuffix(path, tail) })
}
