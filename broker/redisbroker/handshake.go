package redisbroker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// handshake is a hook for what go-redis makes of a connection that the server refuses as it is made (a password that was
// changed, too many clients, a server that is loading). In a pipeline it gives such an error to the caller and to none of
// the commands, each of which would look as if it had been carried out.
type handshake struct{}

// DialHook leaves dialing alone.
func (handshake) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook hides what an error repeats.
func (handshake) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if err != nil && repeats(err) {
			err = hide(err)
			command.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook gives the error of a connection to every command.
func (handshake) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if err == nil {
			return nil
		}
		unsent := !slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Err() != nil })
		for _, c := range commands {
			switch own := c.Err(); {
			case unsent:
				c.SetErr(hide(err))
			case own != nil && repeats(own):
				c.SetErr(hide(own))
			}
		}
		return hide(err)
	}
}

// repetition is how a server begins to repeat the arguments of a command that it does not know: a password, where it has no
// AUTH, or somebody's payload.
const repetition = ", with args beginning with"

func repeats(err error) bool { return strings.Contains(err.Error(), repetition) }

// hide is the error without what it repeats.
func hide(err error) error {
	if err == nil || !repeats(err) {
		return err
	}
	text, _, _ := strings.Cut(err.Error(), repetition)
	switch unmade := (*dialError)(nil); {
	case errors.As(err, &unmade):
		return &dialError{errors.New(text)}
	case isReply(err):
		return serverError(text)
	}
	return errors.New(text)
}
