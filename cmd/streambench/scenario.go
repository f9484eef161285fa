package main

// scenario is one thing that is measured, for each subject that can do it. The first subject is what the others are
// compared with.
type scenario struct {
	name, about string
	// n is how many messages a measurement takes.
	n, concurrency int
	subjects       []subject
}

// subject is one of those who are compared. slow divides the number of messages, so that a round of those takes no longer
// than one of the others.
type subject struct {
	name string
	slow int
	run  func(*bench) error
}

const (
	bare      = "bare go-redis"
	millrace  = "millrace"
	asynqName = "asynq"
	watermill = "watermill"
	redisq    = "redisqueue"
)

var scenarios = []scenario{
	{"consume-1", "a no-op handler with the JSON decoded, one at a time", 1_000_000, 1, consumers(false)},
	{"consume-10", "a no-op handler with the JSON decoded, 10 at a time", 1_000_000, 10, consumers(false)},
	{"consume-100", "a no-op handler with the JSON decoded, 100 at a time", 1_000_000, 100, consumers(false)},
	{"work-1ms", "a handler that takes 1 ms, 100 at a time", 200_000, 100, consumers(true)},
	{"light-load", "1,000 messages a second for 5 seconds, from publish to handler", 5_000, 10, []subject{
		{bare, 1, lightBare}, {millrace, 1, lightMillrace}, {watermill, 1, lightWatermill}, {redisq, 1, lightRedisqueue}, {asynqName, 1, lightAsynq},
	}},
	{"publish-one", "one message a call, one call at a time", 50_000, 1, []subject{
		{bare, 1, publishBare}, {millrace, 1, publishMillrace}, {watermill, 1, publishWatermill}, {redisq, 1, publishRedisqueue}, {asynqName, 1, publishAsynq},
	}},
	{"publish-many", "one message a call, 16 calls at a time", 200_000, 16, []subject{
		{bare, 1, publishBare}, {millrace, 1, publishMillrace}, {watermill, 1, publishWatermill}, {redisq, 1, publishRedisqueue}, {asynqName, 1, publishAsynq},
	}},
	{"publish-batch", "100 messages a call", 1_000_000, 1, []subject{{bare, 1, batchBare}, {millrace, 1, batchMillrace}}},
	{"retry-storm", "every message fails once and is tried again at once", 500_000, 100, []subject{
		{bare + " (consume)", 1, consumeBare}, {millrace, 1, retriesMillrace}, {asynqName, 20, retriesAsynq},
	}},
	{"delay-move", "100,000 delayed messages fall due at once", 100_000, 1, []subject{{millrace, 1, moveMillrace}}},
	{"delay-lateness", "1,000 a second ask for another attempt in a second: how late it comes", 5_000, 100, []subject{
		{millrace + " (memory)", 1, latenessMemory}, {millrace + " (set)", 1, latenessSet}, {asynqName, 1, latenessAsynq},
	}},
	{"dead-letters", "every message goes to the dead letter", 200_000, 100, []subject{
		{bare + " (consume)", 1, consumeBare}, {millrace, 1, buriesMillrace}, {asynqName, 10, buriesAsynq},
	}},
	{"claiming", "a no-op handler under claim=1m", 1_000_000, 100, []subject{{bare, 1, consumeBare}, {millrace, 1, claimingMillrace}}},
	{"reliable-list", "a no-op handler on a list that loses nothing, against popping a hundred at a time, which may", 200_000, 100, []subject{
		{bare, 1, listBare}, {millrace, 1, listMillrace},
	}},
	{"recovery", "what a dead worker left pending", 100_000, 100, []subject{{millrace, 1, recoveryMillrace}}},
	{"idle", "100 mounts with nothing to do, for 10 seconds", 1_000, 10, []subject{{millrace, 1, idleMillrace}}},
	{"memory", "what a message costs the process that waits in memory for its delay", 100_000, 100, []subject{{millrace, 1, memoryMillrace}}},
}

func (s scenario) names() []string {
	var names []string
	for _, subject := range s.subjects {
		names = append(names, subject.name)
	}
	return names
}

func consumers(work bool) []subject {
	busy := func(run func(*bench, bool) error) func(*bench) error {
		return func(b *bench) error { return run(b, work) }
	}
	subjects := []subject{{bare, 1, consumeBare}}
	if work { // The bare loop has one hand.
		subjects = nil
	}
	return append(subjects,
		subject{millrace, 1, busy(consumeMillrace)},
		subject{redisq, 4, busy(consumeRedisqueue)},
		subject{watermill, 10, busy(consumeWatermill)},
		subject{asynqName, 20, busy(consumeAsynq)},
	)
}
