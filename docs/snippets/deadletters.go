package snippets

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace-go/millrace/app"
)

// Desk is where people look at dead letters.
type Desk struct {
	Open func(ticket string) error
}

// cut:reader

// Look opens a ticket for each dead letter. It reads bytes, because a dead letter may be one that nobody can decode.
//
//stream:subscriber stream=charges.dlq group=desk codec=raw
func (d *Desk) Look(ctx context.Context, body []byte) error {
	m := app.MessageFrom(ctx)
	letter := m.DeadLetter
	if letter == nil {
		return nil // somebody published to the stream: not a dead letter
	}
	ticket := fmt.Sprintf("%s from %s: %s after %d failures: %s", m.ID, letter.Source, letter.Reason, letter.Attempts, letter.Error)
	var c Charge
	if json.Unmarshal(body, &c) == nil {
		ticket += fmt.Sprintf(" (charge %d)", c.ID)
	}
	return d.Open(ticket)
}

// cut:end

// mountDesk places the reader.
func mountDesk(m *app.Mounts, d *Desk) {
	// cut:again
	m.Mount(DeskLookSubscription.With(d),
		app.MaxAttempts(2),
		app.DeadLetter("charges.lost"),
	)
	// cut:end
}
