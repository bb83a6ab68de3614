package connlimit

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// Listener counts each connection that it accepts as a stranger's, until Know is called for it or it is closed.
type Listener struct {
	net.Listener
	strangers *Strangers
	known     chan struct{}
}

// Listen counts the connections of a listener. known bounds those whose clients are known.
func (s *Strangers) Listen(l net.Listener, known int) *Listener {
	return &Listener{Listener: l, strangers: s, known: make(chan struct{}, known)}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, listener: l}
	leave := l.strangers.Enter(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave = leave; c.closed {
		leave()
	}
	return c, nil
}

// counted is a connection that a Listener has accepted.
type counted struct {
	net.Conn
	listener *Listener

	mu            sync.Mutex
	leave         func()
	known, closed bool
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.mu.Lock()
	if c.leave != nil {
		c.leave()
	}
	if c.known && !c.closed {
		<-c.listener.known
	}
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *counted) know() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || c.closed {
		return !c.closed
	}
	select {
	case c.listener.known <- struct{}{}:
	default:
		return false
	}
	c.known = true
	c.leave()
	return true
}

type connectionKey struct{}

// Context has Know find the connection of a request. It is for http.Server.ConnContext.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// Know says that the client of a request's connection has proved who it is. It returns false if there are as many known clients
// as there may be, and if the connection has been closed. A request whose connection no Listener has accepted is not bounded.
func Know(ctx context.Context) bool {
	c, is := ctx.Value(connectionKey{}).(*counted)
	return !is || c.know()
}
