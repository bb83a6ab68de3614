package ui

import (
	"context"
	"net"
	"net/http"

	"github.com/vishvananda/netlink"
)

// unknownUser is who is at the other end where the kernel does not tell.
const unknownUser = -1

// userKey is the key of the user in a connection's context.
type userKey struct{}

// withUser notes which of the machine's users is at the other end of a connection. A browser shows its cookies to every port of the loopback interface, at which others may listen, so that a cookie alone does not say who has it.
func withUser(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, userKey{}, socketUser(c.RemoteAddr(), c.LocalAddr()))
}

// userOf is the number of the user who asks.
func userOf(r *http.Request) int {
	if user, known := r.Context().Value(userKey{}).(int); known {
		return user
	}
	return unknownUser
}

// socketUser is the owner of the socket of this machine at an end of a connection (sock_diag(7)).
func socketUser(local, remote net.Addr) int {
	s, err := netlink.SocketGet(local, remote)
	if err != nil {
		return unknownUser
	}
	// The kernel looks at ports alone.
	if l, is := local.(*net.TCPAddr); !is || !s.ID.Source.Equal(l.IP) {
		return unknownUser
	}
	if r, is := remote.(*net.TCPAddr); !is || !s.ID.Destination.Equal(r.IP) {
		return unknownUser
	}
	return int(s.UID)
}
