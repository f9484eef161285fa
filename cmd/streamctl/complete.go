package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
)

const (
	// completeFor is how long a shell waits for keys at most.
	completeFor  = 2 * time.Second
	completeKeys = 100
)

// completion proposes arguments.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// structures are the kinds of keys by the names that TYPE has for them.
var structures = map[string]broker.Structure{
	"stream": broker.StructureStream, "list": broker.StructureList, "zset": broker.StructureSortedSet,
}

// completeKeys proposes keys of these kinds for the first argument.
func (s *session) completeKeys(kinds ...string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.keysLike(cmd.Context(), begun, kinds)
	}
}

// completeGroups proposes a stream, and then its groups.
func (s *session) completeGroups(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return s.keysLike(cmd.Context(), begun, []string{"stream"})
	case 1:
		ctx, cancel := context.WithTimeout(cmd.Context(), completeFor)
		defer cancel()
		if s.connect(ctx) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		groups, _ := s.client().XInfoGroups(ctx, s.key(args[0])).Result() // without an answer nothing is proposed
		var names []cobra.Completion
		for _, g := range groups {
			if strings.HasPrefix(g.Name, begun) {
				names = append(names, g.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeKind has the flags that name keys propose some, and --kind its values.
func (s *session) completeKind(cmd *cobra.Command, key, set string) {
	propose := func(flag string, kinds ...string) {
		if flag == "" {
			return
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return s.keysLike(cmd.Context(), begun, kinds)
		})
	}
	propose(key, "stream", "list")
	propose(set, "zset")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
}

func (s *session) keysLike(ctx context.Context, begun string, kinds []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	if s.connect(ctx) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	full := s.key(begun)
	var keys []cobra.Completion
	for _, kind := range kinds {
		found, _ := s.op.Keys(ctx, full, structures[kind], completeKeys) // what was found in time is better than nothing
		for _, key := range found {
			// The shell takes only what goes on as it was begun.
			keys = append(keys, begun+strings.TrimPrefix(key, full))
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
