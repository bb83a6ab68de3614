// Package pipe copies bytes both ways between two connections, and looks at none of them.
//
//	Join       copies until one side ends
//	JoinHalves copies until both sides have ended: the end of one direction is passed on, and the other direction goes on
//
// What must stay true: both connections are closed when a call returns, and it returns once ctx has ended. Neither bounds how
// long a side may be silent, nor how long it may take nothing: package gate does, for connections whose messages are judged as
// well.
package pipe

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Join copies both ways until one side ends, or ctx does.
func Join(ctx context.Context, a, b net.Conn) {
	join(ctx, a, b, func(to, from net.Conn) (whole bool) {
		_, _ = io.Copy(to, from)
		return false
	})
}

// JoinHalves copies both ways until both sides have ended, or ctx has. An error in one direction ends both.
func JoinHalves(ctx context.Context, a, b net.Conn) {
	join(ctx, a, b, func(to, from net.Conn) (whole bool) {
		if _, err := io.Copy(to, from); err != nil {
			return false
		}
		half, can := to.(halfCloser)
		// A side that is closed already needs no end; one that can be told of none must not wait for it.
		return can && !errors.Is(half.CloseWrite(), errors.ErrUnsupported)
	})
}

// join copies each way; a copy that does not report that the connections are whole ends both.
func join(ctx context.Context, a, b net.Conn, copies func(to, from net.Conn) (whole bool)) {
	both := sync.OnceFunc(func() { cut(a); cut(b) })
	defer both()
	defer context.AfterFunc(ctx, both)()
	one := func(to, from net.Conn) {
		if !copies(to, from) {
			both()
		}
	}
	var back sync.WaitGroup
	back.Go(func() { one(a, b) })
	one(b, a)
	back.Wait()
}

// cut closes a connection. TLS says goodbye first, and waits up to five seconds for a peer that does not read (crypto/tls): cut does not.
func cut(c net.Conn) {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	_ = c.Close()
}

// halfCloser is a connection that can end what it sends, and still receive.
type halfCloser interface{ CloseWrite() error }

// Ahead is a connection some of whose bytes were read already: From has these, and then the connection's.
type Ahead struct {
	net.Conn
	From io.Reader
}

// Read implements io.Reader.
func (a Ahead) Read(p []byte) (int, error) { return a.From.Read(p) }

// CloseWrite ends what is sent, where the connection can.
func (a Ahead) CloseWrite() error {
	if half, can := a.Conn.(halfCloser); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
