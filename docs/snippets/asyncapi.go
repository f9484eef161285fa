package snippets

import (
	"context"
	"time"
)

// cut:asyncapi

// Invoice is sent to a customer.
type Invoice struct {
	Number string        `json:"number"`
	State  InvoiceState  `json:"state"`
	Lines  []InvoiceLine `json:"lines"`
	// Due is absent where the customer has paid in advance.
	Due *time.Time `json:"due,omitempty"`
}

// InvoiceLine is one thing that was bought.
type InvoiceLine struct {
	What  string `json:"what"`
	Cents int64  `json:"cents,string"`
}

// InvoiceState is how far an invoice has come.
type InvoiceState string

// The states.
const (
	InvoiceOpen InvoiceState = "open"
	InvoicePaid InvoiceState = "paid"
)

// SendInvoice mails an invoice. An open one is sent again after a week.
//
//stream:subscriber stream=invoices group=mail delay-set=invoices.delayed timeout=30s
func SendInvoice(ctx context.Context, i Invoice) error { return nil }

// cut:end
