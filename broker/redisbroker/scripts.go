package redisbroker

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is secured by it
	_ "embed"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/fence.lua
var fenceLua string

//go:embed scripts/schedule.lua
var scheduleLua string

//go:embed scripts/later.lua
var laterLua string

//go:embed scripts/copy.lua
var copyLua string

//go:embed scripts/bound.lua
var boundLua string

//go:embed scripts/bound_letters.lua
var boundLettersLua string

//go:embed scripts/bury.lua
var buryLua string

//go:embed scripts/trim.lua
var trimLua string

//go:embed scripts/delay.lua
var delayLua string

//go:embed scripts/keep.lua
var keepLua string

//go:embed scripts/unpark.lua
var unparkLua string

//go:embed scripts/ack.lua
var ackLua string

//go:embed scripts/check.lua
var checkLua string

//go:embed scripts/take.lua
var takeLua string

//go:embed scripts/release.lua
var releaseLua string

//go:embed scripts/alive.lua
var aliveLua string

//go:embed scripts/refresh.lua
var refreshLua string

//go:embed scripts/judge.lua
var judgeLua string

//go:embed scripts/reap.lua
var reapLua string

//go:embed scripts/putback.lua
var putBackLua string

//go:embed scripts/unseen.lua
var unseenLua string

//go:embed scripts/due.lua
var dueLua string

//go:embed scripts/wait.lua
var waitLua string

//go:embed scripts/after.lua
var afterLua string

//go:embed scripts/permitted.lua
var permittedLua string

//go:embed scripts/measure.lua
var measureLua string

//go:embed scripts/set_measure.lua
var setMeasureLua string

//go:embed scripts/move.lua
var moveLua string

// Scripts that settle begin with the fence, those that delay with schedule, those that bury with bound.
var (
	copyScript    = newScript(fenceLua + copyLua)
	buryScript    = newScript(fenceLua + boundLua + buryLua)
	delayScript   = newScript(fenceLua + scheduleLua + delayLua)
	laterScript   = newScript(scheduleLua + laterLua)
	keepScript    = newScript(fenceLua + keepLua)
	unparkScript  = newScript(fenceLua + unparkLua)
	ackScript     = newScript(fenceLua + ackLua)
	checkScript   = newScript(fenceLua + checkLua)
	takeScript    = newScript(fenceLua + takeLua)
	releaseScript = newScript(fenceLua + releaseLua)
	aliveScript   = newScript(aliveLua)
	refreshScript = newScript(fenceLua + refreshLua)
	judgeScript   = newScript(fenceLua + judgeLua)
	reapScript    = newScript(fenceLua + reapLua)
	putBackScript = newScript(fenceLua + putBackLua)
	unseenScript  = newScript(fenceLua + unseenLua)
	dueScript     = newScript(dueLua)
	moveScript    = newScript(moveLua)
	trimScript    = newScript(trimLua)

	boundLettersScript = newScript(boundLua + boundLettersLua)

	afterScript     = newScript(waitLua + afterLua)
	permittedScript = newScript(permittedLua)

	measureScript    = newScript(measureLua)
	setMeasureScript = newScript(setMeasureLua)

	allScripts = []*script{
		copyScript, buryScript, delayScript, laterScript, keepScript, unparkScript, ackScript, checkScript, takeScript,
		aliveScript, refreshScript, judgeScript, reapScript, putBackScript, unseenScript, releaseScript, dueScript, moveScript,
		afterScript, permittedScript, measureScript, setMeasureScript, trimScript, boundLettersScript,
	}
)

// script is a Lua script that the server knows by its digest. go-redis's own Script cannot be put into a pipeline and
// sent again when the server has forgotten it.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &script{source, hex.EncodeToString(sum[:])}
}

// args returns the EVALSHA command with room for n more arguments.
func (s *script) args(n int, keys ...string) []any {
	args := make([]any, 0, 3+len(keys)+n)
	args = append(args, "EVALSHA", s.sha, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	return args
}

// loadScripts gives every script to each server that keeps keys, in one round trip each.
func loadScripts(ctx context.Context, client redis.UniversalClient) error {
	return everyNode(ctx, client, func(ctx context.Context, node *redis.Client) error {
		_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, s := range slices.Concat(allScripts, listScripts) {
				p.ScriptLoad(ctx, s.source)
			}
			return nil
		})
		return err
	})
}

// loads is how often the scripts are loaded for one call at most: they may be forgotten again in between.
const loads = 3

// run sends one script call, and again where the server has forgotten its scripts (a restart, SCRIPT FLUSH) or never
// had them (a cluster's new one). On a cluster the call goes to the server of its first key.
func run(ctx context.Context, client redis.UniversalClient, args []any) (any, error) {
	reply, err := client.Do(ctx, args...).Result()
	for range loads {
		if !isNoScript(err) {
			break
		}
		if err = loadScripts(ctx, client); err != nil {
			return nil, err
		}
		reply, err = client.Do(ctx, args...).Result()
	}
	return reply, err
}

// runOnce is run for a script that few processes ever need: the server is given it when it is first called.
func (s *script) runOnce(ctx context.Context, client redis.UniversalClient, args []any) (any, error) {
	reply, err := client.Do(ctx, args...).Result()
	if isNoScript(err) {
		args[0], args[1] = "EVAL", s.source
		reply, err = client.Do(ctx, args...).Result()
	}
	return reply, err
}

func isNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// isNoGroup tells that the group, or the stream with it, is not there (any more). A server that becomes a replica ends
// blocked reads with the same code and other words, and has lost nothing: putting back what is in hand would revive what
// is just being settled.
func isNoGroup(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "NOGROUP") || strings.HasPrefix(text, "UNBLOCKED") && !strings.Contains(text, "instance state changed")
}

// mayHaveArrived tells that the command behind the error may have been carried out: its reply was lost. Not so where the
// server refused it, or where no connection could be made.
func mayHaveArrived(err error) bool {
	var never *dialError
	return !isRefused(err) && !errors.As(err, &never)
}

// isReply tells that the server answered, be it with nothing or an error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isRefused tells that the server itself answered with an error, so that the connection is fine.
func isRefused(err error) bool {
	return isReply(err) && !errors.Is(err, redis.Nil)
}
