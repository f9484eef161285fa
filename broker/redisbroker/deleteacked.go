package redisbroker

import (
	"context"
	"fmt"
)

// idsOfXackdel is where XACKDEL says how many ids follow.
const idsOfXackdel = 5

// newAck begins an acknowledgement. Where what every group has acknowledged is to go at once, the same command removes it.
func (s *subscription) newAck(room int) *call {
	if !s.deletes.Load() {
		return &call{args: append(make([]any, 0, 3+room), "XACK", s.source.Key, s.source.Group)}
	}
	args := append(make([]any, 0, 1+idsOfXackdel+room), "XACKDEL", s.source.Key, s.source.Group, "ACKED", "IDS", 0)
	return &call{args: args, deletes: true}
}

// acked counts what an acknowledgement has removed.
func (s *subscription) acked(c *call, reply any) {
	if !c.deletes {
		return
	}
	n := int64(0)
	results, _ := reply.([]any)
	for _, r := range results {
		if r == any(int64(1)) { // 2 is one that another group still needs
			n++
		}
	}
	if n > 0 {
		s.config.Trimmed(s.source.Key, n)
	}
}

// probeDelete asks the server, rather than its version, whether it knows XACKDEL (Redis 8.2). Where it does not, or the user
// may not use it, the trimmer removes what is acknowledged.
func (s *subscription) probeDelete(ctx context.Context) error {
	if !s.config.Retain.DeleteAcked {
		return nil
	}
	err := s.client.Do(ctx, "XACKDEL", s.source.Key, s.source.Group, "ACKED", "IDS", 1, "0-0").Err()
	if err != nil && !isRefused(err) {
		return fmt.Errorf("XACKDEL: %w", err)
	}
	s.deletes.Store(err == nil)
	how := "XACKDEL, at once"
	if err != nil {
		how = fmt.Sprintf("XTRIM, once a minute (%v)", err)
	}
	s.log.Info("removing what every group has acknowledged", "stream", s.source.Key, "with", how)
	return nil
}

// undeletable notes that the server was replaced by one without XACKDEL. The acknowledgement is tried again.
func (s *subscription) undeletable(c *call, err error) {
	if c.deletes && isUnknownCommand(err) {
		s.deletes.Store(false)
	}
}

// count completes the head of a call that says how many entries it has.
func (c *call) count() {
	if c.deletes {
		c.args[idsOfXackdel] = len(c.batch)
	}
}
