package wait

import (
	"context"
	"net"
	"os"
	"time"
)

// Limit ends the reads and writes of a connection, with os.ErrDeadlineExceeded, when the machine has given patience. stop takes the
// limit away.
func Limit(conn interface{ SetDeadline(t time.Time) error }, patience time.Duration) (stop func()) {
	ctx, _, end := here.begin(context.Background(), patience)
	// A connection that is closed needs no limit.
	_ = conn.SetDeadline(time.Time{})
	running := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	return func() {
		if running() {
			end()
			return
		}
		end()
		_ = conn.SetDeadline(time.Time{})
	}
}

// Dial opens a connection. Its error is os.ErrDeadlineExceeded when the machine has given patience and nobody has answered or refused.
func Dial(dialer *net.Dialer, network, address string, patience time.Duration) (net.Conn, error) {
	ctx, _, end := here.begin(context.Background(), patience)
	defer end()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil && ctx.Err() != nil {
		return nil, os.ErrDeadlineExceeded
	}
	return conn, err
}
