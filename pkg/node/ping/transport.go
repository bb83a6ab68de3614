package ping

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// connect makes a connection of TCP each time, which is closed at once.
func (s Spec) connect(target int, inside Place) probe {
	return func(ctx context.Context, _ int) error {
		return inside(func() error {
			conn, err := s.dialer(target).DialContext(ctx, "tcp", netip.AddrPortFrom(s.Targets[target], s.Port).String())
			if err != nil {
				return s.why(ctx, err)
			}
			_ = conn.Close() // It is there: what becomes of it is nobody's matter.
			return nil
		})
	}
}

// datagram sends a datagram from a port of its own each time, and waits for any other.
func (s Spec) datagram(target int, inside Place) probe {
	return func(ctx context.Context, _ int) error {
		var conn net.Conn
		err := inside(func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(s.Targets[target], s.Port).String())
			return err
		})
		if err != nil {
			return s.why(ctx, err)
		}
		defer func() { _ = conn.Close() }()
		defer endWith(ctx, conn)()
		text := make([]byte, s.Size)
		if _, err := rand.Read(text); err != nil {
			return fmt.Errorf("make a datagram: %w", err)
		}
		if s.Mark != nil {
			copy(text, s.Mark.Payload(target))
		}
		if _, err = conn.Write(text); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err != nil {
			return s.why(ctx, err)
		}
		return nil
	}
}

// endWith has whoever waits for a connection wait no longer than ctx. When stop has returned, it sets no deadline any more.
func endWith(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) (stop func()) {
	set := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !undo() {
			<-set
		}
	}
}

// why says in words why there is no answer.
func (s Spec) why(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("refused: nobody listens there, or something on the way refuses it")
	case errors.Is(err, os.ErrDeadlineExceeded), ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", s.Timeout)
	case errors.Is(err, syscall.ENETUNREACH):
		return errors.New("the pod has no route there")
	case errors.Is(err, syscall.EHOSTUNREACH):
		return errors.New("host unreachable")
	case errors.Is(err, syscall.EMSGSIZE):
		return errors.New("it is too large for the pod's interface")
	}
	return err
}
