package snippets

import (
	"time"

	"github.com/millrace-go/millrace/app"
)

// mountKept places a handler whose stream and dead letter have bounds.
func mountKept(m *app.Mounts, b *Billing) {
	// cut:kept
	m.Mount(BillingTakeMoneySubscription.With(b),
		app.Retain(app.KeepLast(100_000), app.KeepFor(7*24*time.Hour)),
		app.MaxAttempts(3),
		app.DeadLetter("charges.dlq", app.KeepLast(10_000)),
	)
	// cut:end
}

// mountDeleted places a handler whose stream keeps only what is still to be done.
func mountDeleted(m *app.Mounts, b *Billing) {
	// cut:deleted
	m.Mount(BillingTakeMoneySubscription.With(b), app.Retain(app.DeleteAcked()))
	// cut:end
}
