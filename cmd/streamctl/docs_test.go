package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	guide    = "../../docs/streamctl.md"
	begin    = "<!-- commands: go test ./cmd/streamctl -run TestTheGuide -update -->\n"
	end      = "<!-- end of commands -->\n"
	helpFlag = "help"
)

// TestTheGuideHasEveryCommand holds the part of the guide between the marks to the command tree.
func TestTheGuideHasEveryCommand(t *testing.T) {
	content, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the guide lacks the lines %q and %q", begin, end)
	}
	var commands strings.Builder
	root := newRoot(&session{})
	describe(&commands, root)
	want := before + begin + commands.String() + "\n" + end + after
	if *update {
		if err := os.WriteFile(guide, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Error("docs/streamctl.md does not show the commands as they are; run go test ./cmd/streamctl -run TestTheGuide -update")
	}
	for name, problem := range unknownCommands(root, before+after) {
		t.Errorf("the guide calls %q: %s", name, problem)
	}
}

// describe writes the section of a command, and those of the commands under it.
func describe(w *strings.Builder, cmd *cobra.Command) {
	if cmd.HasParent() && (cmd.Name() == "help" || cmd.Name() == "completion") {
		return
	}
	if !cmd.HasAvailableSubCommands() || cmd.Name() == "groups" {
		about := cmd.Long
		if about == "" {
			about = cmd.Short + "."
		}
		fmt.Fprintf(w, "\n### %s\n\n%s\n\n```text\n%s\n", cmd.CommandPath(), strings.ReplaceAll(about, "<", "&lt;"), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != helpFlag {
				flags.AddFlag(f)
			}
		})
		if usages := flags.FlagUsages(); usages != "" {
			fmt.Fprintf(w, "\n%s", usages)
		}
		w.WriteString("```\n")
	}
	for _, sub := range cmd.Commands() {
		describe(w, sub)
	}
}

var called = regexp.MustCompile("(?m)(?:^|[`$ ])streamctl ((?:[a-z-]+ ?)+)([^`\n]*)")

// unknownCommands are calls in the text of commands or flags that there are not.
func unknownCommands(root *cobra.Command, text string) map[string]string {
	problems := map[string]string{}
	for _, m := range called.FindAllStringSubmatch(text, -1) {
		cmd, _, err := root.Find(strings.Fields(m[1]))
		if err != nil || cmd == root && !strings.HasPrefix(m[1], "completion") {
			problems[m[0]] = "there is no such command"
			continue
		}
		for _, word := range strings.Fields(m[1] + m[2]) {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			if strings.HasPrefix(word, "--") && name != helpFlag && cmd.Flags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil {
				problems[m[0]] = "it has no flag --" + name
			}
		}
	}
	return problems
}

// TestTheOtherGuidesCallWhatThereIs holds the calls in all guides, and in the README, to the command tree.
func TestTheOtherGuidesCallWhatThereIs(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d guides: %v", len(files), err)
	}
	for _, file := range append(files, "../../README.md") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, problem := range unknownCommands(newRoot(&session{}), string(content)) {
			t.Errorf("%s calls %q: %s", file, name, problem)
		}
	}
}

func TestTheGuideIsHeldToItsCalls(t *testing.T) {
	root := newRoot(&session{})
	for text, problem := range map[string]string{
		"`streamctl dlq ls refunds.dlq --json`":   "",
		"`streamctl dlq list`":                    "",
		"`streamctl sing`":                        "there is no such command",
		"`streamctl dlq replay k --all --slowly`": "it has no flag --slowly",
		"    streamctl groups seek s g 0 --yes\n": "",
		"`streamctl completion bash`":             "",
	} {
		got := ""
		for _, p := range unknownCommands(root, text) {
			got = p
		}
		if got != problem {
			t.Errorf("%s: %q, want %q", text, got, problem)
		}
	}
}
