package deadletter

import (
	"context"

	"github.com/millrace-go/millrace/broker"
)

// Purge deletes the records that the filter lets through, for good. The zero filter deletes every dead letter. An entry that
// is no dead letter is deleted only where the filter asks for Foreign or names it by its id. Records that come in meanwhile
// are left alone. Errors and the end of ctx are as with [Queue.Replay].
func (q *Queue) Purge(ctx context.Context, filter Filter, options ...PurgeOption) (Report, error) {
	p := new(plan)
	for _, o := range options {
		if o != nil {
			o.applyPurge(p)
		}
	}
	r := &purge{run: run{queue: q, plan: p}}
	r.step = r.remove
	return r.do(ctx, filter)
}

// purge is one call of Purge.
type purge struct{ run }

// remove deletes records of the last page.
func (r *purge) remove(ctx context.Context, walk broker.LetterWalk, letters []*broker.Letter) error {
	if !r.filter.Foreign && len(r.filter.IDs) == 0 {
		buried := letters[:0:0]
		for _, l := range letters {
			if l.Burial != nil {
				buried = append(buried, l)
			}
		}
		r.report.Foreign += len(letters) - len(buried)
		letters = buried
	}
	if r.plan.dryRun || len(letters) == 0 {
		r.report.Done += len(letters)
		return nil
	}
	n, err := walk.Remove(ctx, letters)
	r.report.Done += n
	if err == nil {
		r.report.Gone += len(letters) - n
	}
	return err
}
