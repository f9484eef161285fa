package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
)

func newPeek(s *session) *cobra.Command {
	var from string
	var newest, raw, full bool
	var n int
	cmd := &cobra.Command{
		Use:   "peek KEY",
		Short: "Show messages of a stream, a list or a delay set without taking them",
		Long: `Peek shows messages and takes none: of a stream the oldest entries first, of a list what is taken next, of a delay set
what is due first.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list", "zset"),
	}
	flags := cmd.Flags()
	flags.IntVarP(&n, "limit", "n", 10, "show `N` at most")
	flags.StringVar(&from, "from", "", "begin at this `ID` (streams)")
	flags.BoolVar(&newest, "newest", false, "the other end first: what was published last")
	flags.BoolVar(&raw, "raw", false, "write the payloads' bytes and nothing else")
	flags.BoolVar(&full, "full", false, "cut nothing")
	cmd.MarkFlagsMutuallyExclusive("raw", "full")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return usage("--limit %d: give 1 or more", n)
		}
		if from != "" {
			if _, err := parseID(from); err != nil {
				return usage("--from %q is no entry id; give one such as 1526919030474-0", from)
			}
		}
		return s.online(func(ctx context.Context, args []string) error {
			key := s.key(args[0])
			messages, err := s.messages(ctx, key, from, n, newest)
			if err != nil {
				return err
			}
			if len(messages) == 0 {
				s.say("nothing stands at %s", key)
			}
			for i, d := range messages {
				switch {
				case raw:
					_, err = s.stdout.Write(d.Body)
				case s.json:
					err = s.print(messageJSON(d))
				default:
					if i > 0 {
						fmt.Fprintln(s.stdout)
					}
					err = s.showMessage(d, full)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})(cmd, args)
	}
	return cmd
}

// messages are those at one end of whatever stands at the key.
func (s *session) messages(ctx context.Context, key, from string, n int, newest bool) ([]*broker.Delivery, error) {
	kind, err := s.client().Type(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("TYPE %q: %w", key, err)
	}
	if from != "" && kind != "stream" {
		return nil, usage("--from is for streams, and %q is a %s", key, kind)
	}
	switch kind {
	case "none":
		return nil, failed("nothing stands at %q", key)
	case "stream":
		first, last := "-", "+"
		switch {
		case from != "" && newest:
			last = from
		case from != "":
			first = from
		}
		return s.op.Entries(ctx, key, first, last, n, newest)
	case "list":
		first, last := int64(-n), int64(-1)
		if newest {
			first, last = 0, int64(n-1)
		}
		items, err := s.client().LRange(ctx, key, first, last).Result()
		if err != nil {
			return nil, fmt.Errorf("LRANGE %q: %w", key, err)
		}
		if !newest {
			slices.Reverse(items)
		}
		messages := make([]*broker.Delivery, len(items))
		for i, item := range items {
			messages[i] = s.op.OpenMessage([]byte(item))
		}
		return messages, nil
	case "zset":
		if newest {
			return nil, usage("--newest is for streams and lists; what is due first comes first")
		}
		var messages []*broker.Delivery
		for d, err := range s.op.Delayed(ctx, key) {
			if err != nil {
				return nil, err
			}
			if messages = append(messages, d.Message); len(messages) == n {
				break
			}
		}
		return messages, nil
	}
	return nil, failed("%q is a %s, and holds no messages", key, kind)
}

// message is a message for a program.
type message struct {
	ID      string               `json:"id,omitempty"`
	Fault   string               `json:"fault,omitempty"`
	Reason  string               `json:"dead_letter,omitempty"`
	Headers map[string]bytesJSON `json:"headers"`
	Payload *bytesJSON           `json:"payload"`
	Fields  [][2]bytesJSON       `json:"fields,omitempty"`
}

func messageJSON(d *broker.Delivery) message {
	m := message{ID: d.ID, Fault: fault(d), Headers: headersJSON(d.Headers), Payload: payloadJSON(d.Body, d.HasBody)}
	if d.Burial != nil {
		m.Reason = d.Burial.Reason
	}
	if !d.HasBody {
		m.Fields = fieldsJSON(d.Fields)
	}
	return m
}

func (s *session) showMessage(d *broker.Delivery, full bool) error {
	most := shownBytes
	if full {
		most = 0
	}
	var pairs []string
	if d.ID != "" {
		pairs = append(pairs, "id", d.ID)
	}
	if text := fault(d); text != "" {
		pairs = append(pairs, "fault", text)
	}
	if d.Burial != nil {
		pairs = append(pairs, "dead letter", cell(d.Burial.Reason)+", from "+cell(d.Burial.Source))
	}
	for _, h := range d.Headers {
		pairs = append(pairs, "header", cell(h.Name)+": "+shown(h.Value, most))
	}
	if !d.HasBody {
		for _, f := range d.Fields {
			pairs = append(pairs, "field", cell(string(f.Name))+": "+shown(string(f.Value), most))
		}
	} else {
		pairs = append(pairs, "payload", shown(string(d.Body), most))
	}
	return facts(s.stdout, pairs...)
}

// isNil tells that the server has nothing there.
func isNil(err error) bool { return errors.Is(err, redis.Nil) }
