// Package mail is what the workers send to customers.
package mail

import (
	"context"
	"fmt"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// cut:handlers

// Sender sends mails.
type Sender struct {
	Send func(ctx context.Context, to, text string) error
}

// Welcome is sent to a new customer.
type Welcome struct {
	To string `json:"to"`
}

// Invoice asks for money.
type Invoice struct {
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// SendWelcome takes the messages of the stream whose header task is send_welcome, and no others.
//
//stream:subscriber stream=jobs group=workers task=send_welcome
func (s *Sender) SendWelcome(ctx context.Context, w Welcome) error {
	return s.Send(ctx, w.To, "welcome")
}

// SendInvoice is new in the second version: workers of the first one do not know its name.
//
//stream:subscriber stream=jobs group=workers task=send_invoice
func (s *Sender) SendInvoice(ctx context.Context, i Invoice) error {
	return s.Send(ctx, i.To, fmt.Sprintf("you owe €%d.%02d", i.Cents/100, i.Cents%100))
}

// cut:end
