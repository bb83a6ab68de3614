package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Bounds of a connection that goes through a Gate.
type Bounds struct {
	// Idle is how long neither end may say anything.
	Idle time.Duration
	// Stuck is how long an end may take nothing of what it is sent.
	Stuck time.Duration
}

var (
	errIdle     = errors.New("nobody said anything for too long")
	errServer   = errors.New("the database's server has ended it")
	errClient   = errors.New("the client has ended it")
	errStuck    = errors.New("the client does not read what it is sent")
	errNoReader = errors.New("the client asks for more than it reads")
)

// Join has a client talk to a server until either ends it, a bound is reached, or ctx ends. Both are closed then. It says how much was refused, and why it has ended.
func (g Gate) Join(ctx context.Context, client, server net.Conn, b Bounds) (refused int, why error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	closing := func() { _, _ = client.Close(), server.Close() }
	defer closing()
	defer context.AfterFunc(ctx, closing)()
	idle := time.AfterFunc(b.Idle, func() { end(errIdle) })
	defer idle.Stop()
	back := &backwards{to: bounded{client, idle, b}}
	var running sync.WaitGroup
	running.Go(func() {
		_, err := io.Copy(serverSays{back}, bounded{server, idle, b})
		if errors.Is(err, errStuck) {
			end(err)
		}
		end(errServer)
	})
	refused, err := g.pass(bounded{client, idle, b}, bounded{server, idle, b}, back)
	switch _, network := errors.AsType[net.Error](err); {
	case err == nil, network, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		end(errClient)
	default:
		end(err)
	}
	running.Wait()
	return refused, context.Cause(ctx)
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

	mu sync.Mutex
	// depth is in how many braces the server's words are by now; in a text they do not count.
	depth           int
	quoted, escaped bool
	// waiting are answers for when its message is over.
	waiting []byte
}

// serverSays writes the server's words.
type serverSays struct{ *backwards }

// Write implements io.Writer.
func (s serverSays) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.follow(p)
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

// follow keeps up with where in a message the server is. It gives where its last message in p is over; 0 when none is.
func (b *backwards) follow(p []byte) (over int) {
	for i, c := range p {
		switch {
		case b.escaped:
			b.escaped = false
		case b.quoted:
			b.escaped, b.quoted = c == '\\', c != '"'
		case c == '"':
			b.quoted = true
		case c == '{':
			b.depth++
		case c == '}':
			if b.depth--; b.depth == 0 {
				over = i + 1
			}
		}
	}
	return over
}

// Write writes one of our answers, or has it wait until the server's message is over.
func (b *backwards) Write(answer []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.depth == 0 {
		return b.to.Write(answer)
	}
	if len(b.waiting)+len(answer) > maxAnswers {
		return 0, errNoReader
	}
	b.waiting = append(b.waiting, answer...)
	return len(answer), nil
}
