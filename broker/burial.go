package broker

import (
	"strconv"
	"time"
)

// The reasons of a dead letter.
const (
	// ReasonMaxAttempts: the handler kept failing.
	ReasonMaxAttempts = "max_attempts"
	// ReasonMaxDeliveries: the entry kept outliving its owners.
	ReasonMaxDeliveries = "max_deliveries"
	// ReasonUnknownTask: no worker recognised the task's name for long enough.
	ReasonUnknownTask = "unknown_task"
	// ReasonMalformed: the message cannot be decoded.
	ReasonMalformed = "malformed"
	// ReasonRejected: the handler answered DeadLetter.
	ReasonRejected = "rejected"
)

// The fields that burying appends to a dead letter, in the order in which they stand there. On structures without
// fields the same names are headers. A message that dies twice has two sets; the last one counts.
const (
	FieldReason     = "dlq_reason"
	FieldDetail     = "dlq_detail"
	FieldSource     = "dlq_source"
	FieldDeliveries = "dlq_deliveries"
	FieldID         = "dlq_id"
	FieldGroup      = "dlq_group"
	FieldHandler    = "dlq_handler"
	FieldAttempts   = "dlq_attempts"
	FieldLosses     = "dlq_losses"
	FieldError      = "dlq_error"
	FieldAt         = "dlq_at"
)

// Burial is what a dead letter says of its death.
type Burial struct {
	// Reason is one of the Reason constants.
	Reason string
	// Detail is the final error, with a stack where it was a panic.
	Detail string
	// Source is the full key, ID the entry, Group the group and Handler the subscription that it was buried from.
	Source, ID, Group, Handler string
	// Error is the final error, shortened.
	Error string
	// Attempts is the retry-count at the burial, Losses the owners lost, Deliveries the hand-outs.
	Attempts, Losses, Deliveries int64
	// At is the time of the burial by the server's clock. It is zero in a settlement: the server fills it in.
	At time.Time
}

// Fields returns the burial as fields, in their order. dlq_at is left out where At is zero.
func (b *Burial) Fields() []HeaderLine {
	fields := []HeaderLine{
		{FieldReason, b.Reason},
		{FieldDetail, b.Detail},
		{FieldSource, b.Source},
		{FieldDeliveries, strconv.FormatInt(b.Deliveries, 10)},
		{FieldID, b.ID},
		{FieldGroup, b.Group},
		{FieldHandler, b.Handler},
		{FieldAttempts, strconv.FormatInt(b.Attempts, 10)},
		{FieldLosses, strconv.FormatInt(b.Losses, 10)},
		{FieldError, b.Error},
	}
	if !b.At.IsZero() {
		fields = append(fields, HeaderLine{FieldAt, strconv.FormatInt(b.At.UnixMilli(), 10)})
	}
	return fields
}

// Set takes one field into the burial and reports whether the name is one of its fields. A number that is none counts
// as 0: a dead letter that somebody edited can still be read.
func (b *Burial) Set(name, value string) bool {
	switch name {
	case FieldReason:
		b.Reason = value
	case FieldDetail:
		b.Detail = value
	case FieldSource:
		b.Source = value
	case FieldDeliveries:
		b.Deliveries = count(value)
	case FieldID:
		b.ID = value
	case FieldGroup:
		b.Group = value
	case FieldHandler:
		b.Handler = value
	case FieldAttempts:
		b.Attempts = count(value)
	case FieldLosses:
		b.Losses = count(value)
	case FieldError:
		b.Error = value
	case FieldAt:
		b.At = time.UnixMilli(count(value))
	default:
		return false
	}
	return true
}

func count(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
