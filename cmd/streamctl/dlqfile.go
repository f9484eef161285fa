package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func newDLQExport(s *session) *cobra.Command {
	var f filterFlags
	var file string
	cmd := &cobra.Command{
		Use:   "export KEY [ID…]",
		Short: "Write dead letters to a file, as lines of JSON that keep every byte",
		Long: `Export writes records as lines of JSON, the oldest first, to the standard output or to a new file. Every byte is kept:
dlq import writes them back as they were. Nothing is deleted.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			letters := s.letters(args[0])
			total, err := letters.Len(ctx)
			if err != nil {
				return err
			}
			out := s.stdout
			if file != "" {
				// What a file holds already may be the only copy of what was purged since.
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return usage("%w", err)
				}
				defer f.Close() //nolint:errcheck // closed below, with a look at the error
				out = f
			}
			bar := s.progress("exporting", total)
			buffered := bufio.NewWriter(out)
			n, err := letters.Export(ctx, buffered, counted(f.filter(s, args[1:]), bar.reached))
			bar.end()
			err = errors.Join(err, buffered.Flush())
			if f, ok := out.(*os.File); ok && file != "" {
				err = errors.Join(err, f.Close())
			}
			s.say("%s exported from %s", plural(n, "record", "records"), letters.Key())
			return err
		}),
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this new `FILE` instead of the standard output")
	return cmd
}

func newDLQImport(s *session) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "import KEY",
		Short: "Read dead letters from a file that export wrote",
		Long: `Import appends the records of lines that dlq export wrote, read from the standard input or a file: the same fields and
bytes, with new ids. It is no move: what is imported twice stands there twice.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			in := s.stdin
			if file != "" {
				f, err := os.Open(file)
				if err != nil {
					return usage("%w", err)
				}
				defer f.Close() //nolint:errcheck // it was only read
				in = f
			}
			letters := s.letters(args[0])
			bar := s.progress("lines read", 0)
			n, err := letters.Import(ctx, &lines{in, bar, 0})
			bar.end()
			if s.json {
				if printed := s.print(map[string]any{"key": letters.Key(), "imported": n}); err == nil {
					err = printed
				}
			} else {
				s.tell("%s imported to %s", plural(n, "record", "records"), letters.Key())
			}
			if err != nil && !ofServer(err) {
				return failedError{err} // a line that is none
			}
			return err
		}),
	}
	cmd.Flags().StringVarP(&file, "input", "i", "", "read this `FILE` instead of the standard input")
	return cmd
}

// lines counts the lines that are read.
type lines struct {
	io.Reader
	bar *progress
	n   int
}

func (l *lines) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	for _, b := range p[:n] {
		if b == '\n' {
			l.n++
		}
	}
	l.bar.reached(l.n)
	return n, err
}
