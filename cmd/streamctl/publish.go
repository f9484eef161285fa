package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
)

// publication says how messages are published.
type publication struct {
	kind, after, contentType string
	headers                  []string
	delay                    time.Duration
	maxLen                   int64
	lines, bare              bool
}

// publishBatch is how many lines are published in one round trip.
const publishBatch = 500

func newPublish(s *session) *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use:   "publish KEY [BODY]",
		Short: "Publish messages to a stream, a list or a channel",
		Long: `Publish sends a body, which is an argument or else the standard input, as a service would: with a message-id, and with
content-type json where it is JSON. On lists and channels a body goes out bare, without headers, unless --header gives some.`,
		Example: `  streamctl publish refunds '{"id":7}' --header task=refund
  streamctl publish refunds --lines < refunds.jsonl
  streamctl publish thumbnails a.png --kind list`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeKeys("stream", "list"),
	}
	flags := cmd.Flags()
	flags.StringVar(&p.kind, "kind", "", "the `KIND` of KEY: stream, list, channel or sharded (default: what stands there, else a stream)")
	flags.StringArrayVarP(&p.headers, "header", "H", nil, "add a header, `NAME=VALUE`; may be given several times")
	flags.StringVar(&p.contentType, "content-type", "", "the content-type header, a `NAME`; none for \"-\" (default: json where the body is JSON)")
	flags.StringVar(&p.after, "after", "", "by way of this delay set, a `KEY`")
	flags.DurationVar(&p.delay, "delay", 0, "how long it waits there, such as 10m")
	flags.Int64Var(&p.maxLen, "maxlen", 0, "trim the stream to about `N` entries")
	flags.BoolVar(&p.lines, "lines", false, "each line of the standard input is a message")
	flags.BoolVar(&p.bare, "bare", false, "add no headers but those of --header")
	cmd.MarkFlagsRequiredTogether("after", "delay")
	s.completeKind(cmd, "", "after")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := p.options(s, cmd)
		if err != nil {
			return err
		}
		switch {
		case p.lines && len(args) > 1:
			return usage("--lines reads the standard input; leave the body out")
		case len(args) == 1 && s.types:
			return usage("there is no body: give it as an argument, or pipe it in")
		}
		return s.online(func(ctx context.Context, args []string) error {
			to, err := s.destination(ctx, s.key(args[0]), p.kind)
			if err != nil {
				return err
			}
			if p.lines {
				return s.publishLines(ctx, to, &p, options)
			}
			body, err := s.body(args[1:])
			if err != nil {
				return err
			}
			out := p.outgoing(to, body, options)
			if err := s.broker.Publish(ctx, []broker.Outgoing{out})[0]; err != nil {
				return err
			}
			return s.published(to, 1, out)
		})(cmd, args)
	}
	return cmd
}

// options reads the flags.
func (p *publication) options(s *session, cmd *cobra.Command) (options []broker.PublishOption, err error) {
	if err := checkKind(p.kind); err != nil {
		return nil, err
	}
	for _, text := range p.headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("--header %q: write NAME=VALUE", text)
		}
		options = append(options, broker.Header(name, value))
	}
	if p.after != "" {
		if p.delay <= 0 {
			return nil, usage("--delay %s: give more than 0", p.delay)
		}
		if err := s.configure(); err != nil {
			return nil, err
		}
		options = append(options, broker.After(s.key(p.after), p.delay))
	}
	if cmd.Flags().Changed("maxlen") {
		if p.maxLen < 1 {
			return nil, usage("--maxlen %d: give 1 or more", p.maxLen)
		}
		options = append(options, broker.MaxLen(p.maxLen))
	}
	return options, nil
}

func (s *session) body(args []string) ([]byte, error) {
	if len(args) > 0 && args[0] != "-" {
		return []byte(args[0]), nil
	}
	body, err := io.ReadAll(s.stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return body, nil
}

// outgoing is one message. On lists and channels the library's own headers are added only where there are headers anyway, as
// a service does.
func (p *publication) outgoing(to broker.Destination, body []byte, options []broker.PublishOption) broker.Outgoing {
	out := broker.NewOutgoing(to, body, options...)
	if p.bare || to.Structure() != broker.StructureStream && len(out.Headers) == 0 && p.contentType == "" {
		return out
	}
	contentType := p.contentType
	if contentType == "" && json.Valid(body) {
		contentType = "json"
	}
	if contentType != "" && contentType != "-" {
		addHeader(&out, broker.HeaderContentType, contentType)
	}
	addHeader(&out, broker.HeaderMessageID, rand.Text())
	return out
}

func addHeader(out *broker.Outgoing, name, value string) {
	for _, h := range out.Headers {
		if h.Name == name {
			return
		}
	}
	out.Headers = append(out.Headers, broker.HeaderLine{Name: name, Value: value})
}

// publishLines publishes each line, without its line end. Empty ones are left out.
func (s *session) publishLines(ctx context.Context, to broker.Destination, p *publication, options []broker.PublishOption) error {
	in := bufio.NewReader(s.stdin)
	bar := s.progress("published", 0)
	defer bar.end()
	sent, line := 0, 0
	for ended := false; !ended; {
		var batch []broker.Outgoing
		for len(batch) < publishBatch {
			text, err := in.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("standard input, after %s: %w", plural(sent, "message", "messages"), err)
			}
			if text = bytes.TrimRight(text, "\r\n"); len(text) > 0 {
				batch = append(batch, p.outgoing(to, text, options))
			}
			if ended = err != nil; ended {
				break
			}
		}
		var failure error
		for i, err := range s.broker.Publish(ctx, batch) {
			if err != nil && failure == nil {
				failure = fmt.Errorf("message %d: %w", line+i+1, err)
			}
			if err == nil {
				sent++
			}
		}
		line += len(batch)
		bar.reached(sent)
		if failure != nil {
			bar.end()
			s.say("%s published before that", plural(sent, "message", "messages"))
			return failure
		}
	}
	bar.end()
	return s.published(to, sent, broker.Outgoing{})
}

// published tells what was sent.
func (s *session) published(to broker.Destination, n int, out broker.Outgoing) error {
	id := ""
	for _, h := range out.Headers {
		if h.Name == broker.HeaderMessageID {
			id = h.Value
		}
	}
	if s.json {
		object := map[string]any{"key": to.Key(), "kind": to.Structure().String(), "published": n}
		if id != "" {
			object["message_id"] = id
		}
		return s.print(object)
	}
	text := plural(n, "message", "messages") + " published to " + to.String()
	if id != "" {
		text += ": " + id
	}
	s.tell("%s", text)
	return nil
}
