package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// unknownUser is who is at the other end where the kernel does not tell.
const unknownUser = -1

// connectionKey is the key of the connection in the context of its requests.
type connectionKey struct{}

// connection is a client's. A browser shows its cookies to every port of the loopback interface, and other users may listen
// there. So a cookie alone does not say who has it.
type connection struct {
	local, remote net.Addr
	mu            sync.Mutex
	user          int
}

// withConnection notes who is at the other end of a connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	at := &connection{local: c.LocalAddr(), remote: c.RemoteAddr(), user: unknownUser}
	_, _ = at.whose() // It is asked again with each request while it is not known.
	return context.WithValue(ctx, connectionKey{}, at)
}

// whose is the number of the user at the other end.
func (c *connection) whose() (user int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user == unknownUser {
		c.user, err = socketUser(c.remote, c.local)
	}
	return c.user, err
}

// userOf is the number of the user who asks.
func userOf(r *http.Request) (int, error) {
	if c, is := r.Context().Value(connectionKey{}).(*connection); is {
		return c.whose()
	}
	return unknownUser, errors.New("the request came by no connection")
}

// socketUser is the number of the user who owns a socket of this machine, by both ends of its connection (sock_diag(7)). It reads
// all sockets: when the kernel was asked for those of two ports it named several on a busy machine, and netlink returned an
// error.
func socketUser(local, remote net.Addr) (int, error) {
	l, isTCP := local.(*net.TCPAddr)
	r, areTCP := remote.(*net.TCPAddr)
	if !isTCP || !areTCP {
		return unknownUser, fmt.Errorf("%s is no end of a TCP connection", local)
	}
	families := []uint8{unix.AF_INET6}
	if l.IP.To4() != nil {
		// A socket of IPv6 may have an address of IPv4.
		families = []uint8{unix.AF_INET, unix.AF_INET6}
	}
	var problems []error
	for _, family := range families {
		sockets, err := netlink.SocketDiagTCP(family)
		for _, s := range sockets {
			// One that has ended has no owner any more, and is told as root's.
			if s.State != netlink.TCP_TIME_WAIT && int(s.ID.SourcePort) == l.Port && int(s.ID.DestinationPort) == r.Port &&
				s.ID.Source.Equal(l.IP) && s.ID.Destination.Equal(r.IP) {
				return int(s.UID), nil
			}
		}
		problems = append(problems, err)
	}
	return unknownUser, errors.Join(
		append(problems, fmt.Errorf("the kernel tells of no socket at %s that is connected to %s", local, remote))...)
}
