package gate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/process/pipe"
)

// maxAnswers bounds the refusals that wait until the server's message is over, in bytes.
const maxAnswers = 256 << 10

// A Judge reads the client's messages until the client ends. It forwards those that are allowed to server, and writes a reply for
// each other one to answers, one whole message per Write. It returns how many messages it refused. An error means that it cannot
// parse what the client sends: the start of the next message is unknown then.
type Judge func(client io.Reader, server, answers io.Writer) (refused int, err error)

// Bounds of a connection.
type Bounds struct {
	// Idle is how long neither end may say anything.
	Idle time.Duration
	// Stuck is how long an end may take nothing of what it is sent.
	Stuck time.Duration
}

var (
	errIdle     = errors.New("nobody said anything for too long")
	errServer   = errors.New("the server has ended it")
	errOdd      = errors.New("the server says what is no message")
	errClient   = errors.New("the client has ended it")
	errStuck    = errors.New("the client does not read what it is sent")
	errNoReader = errors.New("the client asks for more than it reads")
)

// Join has a client talk to a server until either ends it, a bound is reached, or ctx ends. Both are closed then. says keeps up
// with the server's messages. It says how much was refused, and why it has ended.
func Join(ctx context.Context, client, server net.Conn, judge Judge, says Follower, b Bounds) (refused int, why error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	closing := func() { _, _ = client.Close(), server.Close() }
	defer closing()
	defer context.AfterFunc(ctx, closing)()
	idle := time.AfterFunc(b.Idle, func() { end(errIdle) })
	defer idle.Stop()
	back := &backwards{to: bounded{client, idle, b}, says: says}
	var running sync.WaitGroup
	running.Go(func() {
		_, err := io.Copy(serverSays{back}, bounded{server, idle, b})
		if errors.Is(err, errStuck) || errors.Is(err, errOdd) {
			end(err)
		}
		end(errServer)
	})
	refused, err := judge(bounded{client, idle, b}, bounded{server, idle, b}, back)
	switch _, network := errors.AsType[net.Error](err); {
	case err == nil, network, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		end(errClient)
	default:
		end(err)
	}
	running.Wait()
	return refused, context.Cause(ctx)
}

// Spoken waits until a client has sent something, for b.Idle at most. What it has sent is still to be read from the connection
// that Spoken returns. Its error is why the wait ended: the client has gone, said nothing for too long, or ctx has ended.
func Spoken(ctx context.Context, client net.Conn, b Bounds) (net.Conn, error) {
	// A deadline cannot be set on a connection that has ended.
	if err := client.SetReadDeadline(time.Now().Add(b.Idle)); err != nil {
		return nil, fmt.Errorf("%w: %w", errClient, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = client.SetReadDeadline(time.Unix(1, 0)) })
	ahead := bufio.NewReader(client)
	_, err := ahead.Peek(1)
	switch late, ok := errors.AsType[net.Error](err); {
	case !stop():
		return nil, context.Cause(ctx)
	case ok && late.Timeout():
		return nil, errIdle
	case err != nil:
		return nil, errClient
	}
	if err := client.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("%w: %w", errClient, err)
	}
	return pipe.Ahead{Conn: client, From: ahead}, nil
}

// bounded is an end of the connection that must take what it is sent, and whose words keep the connection alive.
type bounded struct {
	net.Conn
	idle   *time.Timer
	bounds Bounds
}

// Read implements io.Reader.
func (b bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 {
		b.idle.Reset(b.bounds.Idle)
	}
	return n, err
}

// Write implements io.Writer.
func (b bounded) Write(p []byte) (int, error) {
	if err := b.SetWriteDeadline(time.Now().Add(b.bounds.Stuck)); err != nil {
		return 0, err
	}
	n, err := b.Conn.Write(p)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return n, fmt.Errorf("%w: %w", errStuck, err)
	}
	return n, err
}

// backwards is what goes to the client: the server's words as they are, and our answers between its messages.
type backwards struct {
	to io.Writer

	mu   sync.Mutex
	says Follower
	// waiting are answers for when its message is over.
	waiting []byte
}

// serverSays writes the server's words.
type serverSays struct{ *backwards }

// Write implements io.Writer.
func (s serverSays) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over, err := s.says.Follow(p)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errOdd, err)
	}
	if len(s.waiting) == 0 || over == 0 {
		return s.to.Write(p)
	}
	for _, part := range [][]byte{p[:over], s.waiting, p[over:]} {
		if _, err := s.to.Write(part); err != nil {
			return 0, err
		}
	}
	s.waiting = nil
	return len(p), nil
}

// Write writes one of our answers, or has it wait until the server's message is over.
func (b *backwards) Write(answer []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.says.Between() {
		return b.to.Write(answer)
	}
	if len(b.waiting)+len(answer) > maxAnswers {
		return 0, errNoReader
	}
	b.waiting = append(b.waiting, answer...)
	return len(answer), nil
}

// Follower keeps up with where in its messages the server is, byte by byte.
type Follower interface {
	// Follow goes on by p, and says where in p the last message is over that ends there; 0 when none does. Its error is that these
	// are no messages.
	Follow(p []byte) (over int, err error)
	// Between reports whether the server is between two messages.
	Between() bool
}
