package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
)

// letterRecord is a record for a program. Where, what, why, how often and when are null on one that is no dead letter.
type letterRecord struct {
	ID         string               `json:"id"`
	MessageID  string               `json:"message_id"`
	Foreign    bool                 `json:"foreign,omitempty"`
	Reason     string               `json:"reason,omitempty"`
	Error      string               `json:"error,omitempty"`
	Detail     string               `json:"detail,omitempty"`
	Source     string               `json:"source,omitempty"`
	SourceID   string               `json:"source_id,omitempty"`
	Group      string               `json:"group,omitempty"`
	Handler    string               `json:"handler,omitempty"`
	Attempts   int64                `json:"attempts"`
	Losses     int64                `json:"losses"`
	Deliveries int64                `json:"deliveries"`
	Replays    int                  `json:"replays"`
	At         *string              `json:"at"`
	Headers    map[string]bytesJSON `json:"headers"`
	Payload    *bytesJSON           `json:"payload"`
	Fields     [][2]bytesJSON       `json:"fields,omitempty"`
}

func recordJSON(r *deadletter.Record) letterRecord {
	object := letterRecord{
		ID: r.ID, MessageID: r.MessageID, Foreign: r.Foreign, Reason: r.Reason, Error: r.Error, Detail: r.Detail,
		Source: r.Source, SourceID: r.SourceID, Group: r.Group, Handler: r.Handler,
		Attempts: r.Attempts, Losses: r.Losses, Deliveries: r.Deliveries, Replays: r.Replays, At: instantJSON(r.At),
		Headers: headersJSON(r.Headers), Payload: payloadJSON(r.Body, r.HasBody),
	}
	if !r.HasBody {
		object.Fields = fieldsJSON(r.Fields)
	}
	return object
}

func headersJSON(headers []broker.HeaderLine) map[string]bytesJSON {
	object := make(map[string]bytesJSON, len(headers))
	for _, h := range headers {
		object[h.Name] = bytesJSON(h.Value)
	}
	return object
}

func payloadJSON(body []byte, has bool) *bytesJSON {
	if !has {
		return nil
	}
	payload := bytesJSON(body)
	return &payload
}

func fieldsJSON(fields []broker.Field) (pairs [][2]bytesJSON) {
	for _, f := range fields {
		pairs = append(pairs, [2]bytesJSON{f.Name, f.Value})
	}
	return pairs
}

func newDLQShow(s *session) *cobra.Command {
	var raw, full bool
	cmd := &cobra.Command{
		Use:   "show KEY ID…",
		Short: "Show records of a dead letter whole: what died, where, when, why and how often",
		Long: `Show tells of each record what died, where, when, why and how often, with its headers, its payload and the final error.
A payload that is no text is quoted, and a long one is cut; --full shows all of it, and --raw writes its bytes and nothing
else.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: s.completeKeys("stream", "list"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			letters := s.letters(args[0])
			for i, id := range args[1:] {
				r, err := letters.Get(ctx, id)
				switch {
				case err != nil:
					return err
				case raw:
					_, err = s.stdout.Write(r.Body)
				case s.json:
					err = s.print(recordJSON(&r))
				default:
					if i > 0 {
						fmt.Fprintln(s.stdout)
					}
					err = s.showRecord(&r, full)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the payload's bytes and nothing else")
	cmd.Flags().BoolVar(&full, "full", false, "cut nothing")
	cmd.MarkFlagsMutuallyExclusive("raw", "full")
	return cmd
}

// allReasons are what a record can have been buried for, and reasons say what each means.
var allReasons = []string{
	broker.ReasonMaxAttempts, broker.ReasonMaxDeliveries, broker.ReasonUnknownTask, broker.ReasonMalformed, broker.ReasonRejected,
}

var reasons = map[string]string{
	broker.ReasonMaxAttempts:   "the handler kept failing",
	broker.ReasonMaxDeliveries: "too many processes died with it in hand",
	broker.ReasonUnknownTask:   "no worker knew its task for too long",
	broker.ReasonMalformed:     "it cannot be decoded",
	broker.ReasonRejected:      "the handler rejected it",
}

func (s *session) showRecord(r *deadletter.Record, full bool) error {
	most := shownBytes
	if full {
		most = 0
	}
	pairs := []string{"id", r.ID, "message", cell(or(r.MessageID))}
	if r.Foreign {
		pairs = append(pairs, "reason", "none: nothing in it says that it was buried")
	} else {
		reason := cell(r.Reason)
		if why, ok := reasons[r.Reason]; ok {
			reason += ": " + why
		}
		source := cell(or(r.Source))
		if r.SourceID != "" {
			source += ", entry " + cell(r.SourceID)
		}
		if r.Group != "" {
			source += ", group " + cell(r.Group)
		}
		often := fmt.Sprintf("%s, %s, %s", plural(r.Attempts, "failure", "failures"), plural(r.Losses, "lost owner", "lost owners"),
			plural(r.Deliveries, "delivery", "deliveries"))
		if r.Replays > 0 {
			often += ", " + plural(r.Replays, "replay", "replays") + " before"
		}
		pairs = append(pairs, "reason", reason, "error", shown(r.Error, most), "source", source, "handler", cell(or(r.Handler)),
			"buried", instant(r.At), "counted", often)
	}
	for _, h := range r.Headers {
		if h.Name != broker.HeaderHistory {
			pairs = append(pairs, "header", cell(h.Name)+": "+shown(h.Value, most))
		}
	}
	if history := r.Header(broker.HeaderHistory); history != "" {
		pairs = append(pairs, "history", shown(strings.TrimRight(history, "\n"), most))
	}
	if !r.HasBody {
		for _, f := range r.Fields {
			pairs = append(pairs, "field", cell(string(f.Name))+": "+shown(string(f.Value), most))
		}
	} else {
		pairs = append(pairs, "payload", shown(string(r.Body), most))
	}
	if r.Detail != "" && r.Detail != r.Error {
		pairs = append(pairs, "detail", shown(r.Detail, most))
	}
	return facts(s.stdout, pairs...)
}
