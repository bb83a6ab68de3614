package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// sockets are a server's, one of each kind for each address.
type sockets struct {
	packets   []*net.UDPConn
	listeners []*net.TCPListener
}

// listen makes sockets in the network namespace at path, or in our own if it is empty. A socket belongs to the namespace
// in which it was made, wherever it is used.
func listen(ctx context.Context, path string, addresses []netip.AddrPort) (*sockets, error) {
	s := &sockets{}
	open := func() error {
		for _, at := range addresses {
			if err := s.open(ctx, at); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if path == "" {
		err = open()
	} else {
		err = ns.WithNetNSPath(path, func(ns.NetNS) error { return open() })
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sockets) open(ctx context.Context, at netip.AddrPort) error {
	family := "4"
	if at.Addr().Is6() {
		family = "6"
	}
	config := net.ListenConfig{Control: freely}
	packets, err := config.ListenPacket(ctx, "udp"+family, at.String())
	if err != nil {
		return fmt.Errorf("listen for DNS by UDP: %w", err)
	}
	s.packets = append(s.packets, packets.(*net.UDPConn))
	listener, err := config.Listen(ctx, "tcp"+family, at.String())
	if err != nil {
		return fmt.Errorf("listen for DNS by TCP: %w", err)
	}
	s.listeners = append(s.listeners, listener.(*net.TCPListener))
	return nil
}

// freely lets a socket have an address that the namespace does not have yet, or no longer has for a moment (ip(7)).
func freely(network, _ string, raw syscall.RawConn) error {
	level, option := unix.SOL_IP, unix.IP_FREEBIND
	if network == "udp6" || network == "tcp6" {
		level, option = unix.SOL_IPV6, unix.IPV6_FREEBIND
	}
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, failed)
}

func (s *sockets) close() error {
	var failed []error
	for _, c := range s.packets {
		failed = append(failed, c.Close())
	}
	for _, l := range s.listeners {
		failed = append(failed, l.Close())
	}
	return errors.Join(failed...)
}
