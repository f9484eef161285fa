package redisbroker

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/broker"
)

// ListAckSHA names the script that takes items out of flight.
var ListAckSHA = listAckScript.sha

// Trim is one round of the trimmer. between runs after the look and before anything is removed.
func Trim(ctx context.Context, sub broker.Subscription, between func()) error {
	var t *trimmer
	switch s := sub.(type) {
	case *subscription:
		t = s.trimmer
	case *list:
		t = s.trimmer
	case *reliableList:
		t = s.trimmer
	}
	unneeded, err := t.look(ctx)
	if between != nil {
		between()
	}
	return errors.Join(err, t.trim(ctx, unneeded), t.trimLetters(ctx))
}

// MoveDue is one round of the mover.
func MoveDue(ctx context.Context, sub broker.Subscription) error {
	s, _ := sub.(*subscription)
	_, _, err := s.mover.move(ctx, false)
	return err
}
