package redisbroker

import "sync"

// The bounds of what has been received and waits for a handler. Above either of them the oldest message is dropped: what
// is newer is worth more on a channel, and the server would otherwise cut off a connection that does not read
// (client-output-buffer-limit pubsub), with more that is lost and nobody to count it.
const (
	backlogMessages = 10_000
	backlogBytes    = 64 << 20
)

// published is one message as it came.
type published struct{ channel, data string }

func (p published) size() int { return len(p.channel) + len(p.data) }

// backlog is what has been received and waits to be read. Safe for concurrent use.
type backlog struct {
	// ready has a token when something was put in.
	ready chan struct{}

	mu    sync.Mutex
	queue []published // what stands before head is gone
	head  int
	bytes int
	// dropped counts the episode under way: from the first message that had no room until half of the room is free again.
	dropped int
}

func newBacklog() *backlog { return &backlog{ready: make(chan struct{}, 1)} }

// put adds a message, and drops the oldest ones that no longer have room beside it. It returns how many those were, and
// whether an episode of dropping begins with them. It never blocks.
func (b *backlog) put(m published) (dropped int, began bool) {
	b.mu.Lock()
	b.queue = append(b.queue, m)
	b.bytes += m.size()
	for b.length() > backlogMessages || b.bytes > backlogBytes && b.length() > 1 {
		b.pop()
		dropped++
	}
	began = dropped > 0 && b.dropped == 0
	b.dropped += dropped
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return dropped, began
}

// take removes up to n messages, the oldest first. Where that ends an episode it also returns how many were dropped in it.
func (b *backlog) take(n int) (messages []published, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.length())
	if n == 0 {
		return nil, 0
	}
	messages = make([]published, n)
	for i := range messages {
		messages[i] = b.pop()
	}
	if b.dropped > 0 && b.length() <= backlogMessages/2 && b.bytes <= backlogBytes/2 {
		dropped, b.dropped = b.dropped, 0
	}
	return messages, dropped
}

// empty removes everything. It returns how many messages that were, and how many were dropped in an episode that has not
// ended.
func (b *backlog) empty() (left, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left, dropped = b.length(), b.dropped
	b.queue, b.head, b.bytes, b.dropped = nil, 0, 0, 0
	return left, dropped
}

func (b *backlog) length() int { return len(b.queue) - b.head }

// pop takes out the oldest message. Now and then it moves the rest to the front, so that the queue does not grow.
func (b *backlog) pop() published {
	m := b.queue[b.head]
	b.queue[b.head] = published{}
	b.head++
	b.bytes -= m.size()
	if b.head >= 64 && b.head >= b.length() {
		rest := copy(b.queue, b.queue[b.head:])
		clear(b.queue[rest:])
		b.queue, b.head = b.queue[:rest], 0
	}
	return m
}
