package dispatch

import (
	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/outcome"
)

// label is how a delivery ended, as history lines, metrics and spans say it.
type label uint8

const (
	labelNone label = iota
	labelAck
	labelDrop
	labelRetry
	labelRetryAfter
	labelDeadLetter
	labelFail
	labelPanic
	labelTimeout
	// labelReleased is a run that the shutdown cut off: the message is handed back as if it had not begun.
	labelReleased
	labels
)

// Outcomes are all ways in which a run can end, for [telemetry.Telemetry.Mount].
var Outcomes = []telemetry.Outcome{
	labelNone:       {Name: "none", IsError: true},
	labelAck:        {Name: "ack"},
	labelDrop:       {Name: "drop"},
	labelRetry:      {Name: "retry"},
	labelRetryAfter: {Name: "retry_after"},
	labelDeadLetter: {Name: "dead_letter", IsError: true},
	labelFail:       {Name: "fail", IsError: true},
	labelPanic:      {Name: "panic", IsError: true},
	labelTimeout:    {Name: "timeout", IsError: true},
	labelReleased:   {Name: "released"},
}

func (l label) String() string { return Outcomes[l].Name }

// labelOf is the label of an answer. A kind that this version does not know is a failure like no answer.
func labelOf(k outcome.Kind) label {
	switch k {
	case outcome.KindAck:
		return labelAck
	case outcome.KindDrop:
		return labelDrop
	case outcome.KindRetry:
		return labelRetry
	case outcome.KindRetryAfter:
		return labelRetryAfter
	case outcome.KindDeadLetter:
		return labelDeadLetter
	case outcome.KindFail:
		return labelFail
	}
	return labelNone
}
