package redisbroker

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"
)

// rawCommand is a command whose reply is kept as its bytes.
type rawCommand struct {
	*redis.RawWriteToCmd
	reply *replyBuffer
}

// newRawCommand expects a reply of about so many bytes.
func newRawCommand(ctx context.Context, args []any, size int) rawCommand {
	reply := &replyBuffer{make([]byte, 0, size)}
	return rawCommand{redis.NewRawWriteToCmd(ctx, reply, args...), reply}
}

// refusal takes an error reply out, and returns it as an error.
func (c rawCommand) refusal() error {
	data := c.reply.data
	if len(data) == 0 || data[0] != '-' {
		return nil
	}
	_, _, err := (&reply{data: data}).line()
	c.reply.data = nil
	return err
}

// rawReply sends one command and returns the bytes of the reply, an error reply as an error.
func rawReply(ctx context.Context, client redis.UniversalClient, args []any) ([]byte, error) {
	command := newRawCommand(ctx, args, 0)
	if err := client.Process(ctx, command); err != nil {
		return nil, err
	}
	if err := command.refusal(); err != nil {
		return nil, err
	}
	return command.reply.data, nil
}

// replyBuffer is a bytes.Buffer for what go-redis copies: many short strings, each of a length that is known. A bytes.Buffer
// would make room for 512 bytes before each, and read each twice.
type replyBuffer struct{ data []byte }

func (b *replyBuffer) Write(p []byte) (int, error) {
	b.data = append(b.data, p...)
	return len(p), nil
}

// ReadFrom reads what the reader is limited to, or all that it has.
func (b *replyBuffer) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		rest, err := io.ReadAll(r)
		b.data = append(b.data, rest...)
		return int64(len(rest)), err
	}
	begin, n := len(b.data), int(limited.N)
	b.data = slices.Grow(b.data, n)
	read, err := io.ReadFull(limited.R, b.data[begin:begin+n])
	b.data = b.data[:begin+read]
	limited.N -= int64(read)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // as io.ReaderFrom says; whoever copies sees how much is missing
	}
	return int64(read), err
}
