package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// tablePage is how many rows are laid out together: a long table is printed as it comes.
const tablePage = 200

// table lays out rows for a person.
type table struct {
	w    *tabwriter.Writer
	rows int
}

// table begins one with its titles.
func (s *session) table(titles ...string) *table { return newTable(s.stdout, titles...) }

func newTable(w io.Writer, titles ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(titles...)
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	if t.rows++; t.rows%tablePage == 0 {
		_ = t.w.Flush()
	}
}

func (t *table) end() error { return t.w.Flush() }

// facts lays out names and values, one a line.
func facts(w io.Writer, pairs ...string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		// A value of several lines goes on below itself.
		for n, line := range strings.Split(pairs[i+1], "\n") {
			name := pairs[i]
			if n > 0 {
				name = ""
			}
			fmt.Fprintf(t, "%s\t%s\n", name, line)
		}
	}
	return t.Flush()
}

// print writes one object on one line.
func (s *session) print(v any) error {
	line, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "%s\n", line)
	return err
}

// listing prints rows as a table, or as JSON.
type listing struct {
	s      *session
	titles []string
	table  *table
}

func (s *session) listing(titles ...string) *listing { return &listing{s: s, titles: titles} }

// add prints one row: object for a program, cells for a person.
func (l *listing) add(object any, cells ...string) error {
	if l.s.json {
		return l.s.print(object)
	}
	if l.table == nil {
		l.table = l.s.table(l.titles...)
	}
	l.table.row(cells...)
	return nil
}

// end prints what is left, or says that there was nothing.
func (l *listing) end(nothing string) error {
	switch {
	case l.s.json:
		return nil
	case l.table == nil:
		l.s.say("%s", nothing)
		return nil
	default:
		return l.table.end()
	}
}

// tell is what a command says of its work, in the place of rows.
func (s *session) tell(format string, args ...any) {
	fmt.Fprintln(s.stdout, harmless(fmt.Sprintf(format, args...)))
}

// say tells a person something beside the output.
func (s *session) say(format string, args ...any) {
	fmt.Fprintln(s.stderr, harmless(fmt.Sprintf(format, args...)))
}
