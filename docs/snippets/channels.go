package snippets

import (
	"context"

	"github.com/millrace-go/millrace/app"
)

// Quote is what one share costs.
type Quote struct {
	Symbol string `json:"symbol"`
	Cents  int    `json:"cents"`
}

// Board shows quotes.
type Board struct {
	Show func(context.Context, Quote) error
}

// cut:read

// ShowQuote shows the quotes of one channel.
//
//stream:subscriber channel=prices
func (b *Board) ShowQuote(ctx context.Context, p Quote) error { return b.Show(ctx, p) }

// ShowAnyQuote shows those of all channels that a pattern matches, and says which it was.
//
//stream:subscriber pattern=prices.*
func (b *Board) ShowAnyQuote(ctx context.Context, p Quote) error {
	p.Symbol = app.MessageFrom(ctx).Source + " " + p.Symbol
	return b.Show(ctx, p)
}

// cut:end

func mountBoard(m *app.Mounts, b *Board) {
	// cut:mount
	m.Mount(BoardShowQuoteSubscription.With(b), app.MaxAttempts(5), app.DeadLetter("unshown"))
	m.Mount(BoardShowAnyQuoteSubscription.With(b), app.MaxAttempts(5), app.OutRetry("prices.retries"))
	// cut:end
}
