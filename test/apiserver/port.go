package apiserver

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// port is a free loopback port that nobody else is given while it is held.
type port struct {
	socket int
	number int
}

// reservePort binds a socket to a free port and does not listen on it. The server that is to use the port shares it
// (SO_REUSEPORT), so that there is no moment in which another program could take it.
func reservePort() (*port, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	p := &port{socket: socket}
	if err := p.bind(); err != nil {
		p.release()
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	return p, nil
}

func (p *port) bind() error {
	if err := unix.SetsockoptInt(p.socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if err := unix.Bind(p.socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(p.socket)
	if err != nil {
		return err
	}
	p.number = name.(*unix.SockaddrInet4).Port
	return nil
}

// address is the port with its host, as in a URL.
func (p *port) address() string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(p.number)).String()
}

func (p *port) release() { _ = unix.Close(p.socket) }
