package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// sockets are a server's, one of each kind for each address.
type sockets struct {
	packets   []*net.UDPConn
	listeners []*net.TCPListener
}

// Open makes sockets at a place, for somebody who may not enter it: one of UDP and one of TCP for each address.
func Open(ctx context.Context, at Place) ([]*os.File, error) {
	s, err := listen(ctx, at)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range s.packets {
		packets, failed := s.packets[i].File()
		listener, alsoFailed := s.listeners[i].File()
		err = errors.Join(err, failed, alsoFailed)
		files = append(files, packets, listener)
	}
	if err = errors.Join(err, s.close()); err != nil {
		for _, f := range files {
			_ = f.Close() // A nil file is none.
		}
		return nil, fmt.Errorf("open sockets for DNS: %w", err)
	}
	return files, nil
}

// taken are the sockets that Open made, here or in another process. It closes the files.
func taken(files []*os.File, at Place) (*sockets, error) {
	const each = 2
	s := &sockets{}
	err := error(nil)
	if len(files) != each*len(at.Addresses) {
		err = fmt.Errorf("%d sockets came for %d addresses", len(files), len(at.Addresses))
	}
	for i := 0; i < len(files) && err == nil; i++ {
		err = s.take(files[i])
	}
	for _, f := range files {
		_ = f.Close()
	}
	if err == nil && len(s.packets) != len(s.listeners) {
		err = errors.New("they are not of UDP and TCP for each address")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take sockets for DNS: %w", err), s.close())
	}
	return s, nil
}

// take makes one socket of a file ours.
func (s *sockets) take(f *os.File) error {
	if packets, err := net.FilePacketConn(f); err == nil {
		udp, is := packets.(*net.UDPConn)
		if !is {
			return errors.Join(errors.New("a socket is not of UDP"), packets.Close())
		}
		s.packets = append(s.packets, udp)
		return nil
	}
	listener, err := net.FileListener(f)
	if err != nil {
		return err
	}
	tcp, is := listener.(*net.TCPListener)
	if !is {
		return errors.Join(errors.New("a socket is not of TCP"), listener.Close())
	}
	s.listeners = append(s.listeners, tcp)
	return nil
}

// listen makes sockets in the network namespace of a place. A socket belongs to the namespace in which it was made, wherever it is used.
func listen(ctx context.Context, at Place) (*sockets, error) {
	s := &sockets{}
	open := func() error {
		for _, address := range at.Addresses {
			if err := s.open(ctx, address); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if at.Namespace == "" {
		err = open()
	} else {
		err = ns.WithNetNSPath(at.Namespace, func(ns.NetNS) error { return open() })
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
	config := net.ListenConfig{Control: together}
	// Sockets of multipath TCP cannot be handed over.
	config.SetMultipathTCP(false)
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

// together lets a socket have an address that the namespace does not have yet, or no longer has for a moment (ip(7)), and
// that another process answers at: a predecessor that is about to leave (SO_REUSEPORT in socket(7)).
func together(network, _ string, raw syscall.RawConn) error {
	level, option := unix.SOL_IP, unix.IP_FREEBIND
	if network == "udp6" || network == "tcp6" {
		level, option = unix.SOL_IPV6, unix.IPV6_FREEBIND
	}
	return control(raw, func(fd int) error {
		return errors.Join(unix.SetsockoptInt(fd, level, option, 1), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
}

func control(raw syscall.RawConn, set func(fd int) error) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = set(int(fd)) })
	return errors.Join(err, failed)
}

// lull is how long a socket that nothing more is handed to is read: what is in it, and what was on its way there.
const lull = 200 * time.Millisecond

// drain has the kernel hand all that comes from now on to the successor, if there is one, and ends reading soon: what came
// before is answered.
func (s *sockets) drain() error {
	var failed []error
	until := time.Now().Add(lull)
	for _, c := range s.packets {
		raw, err := c.SyscallConn()
		if err == nil {
			err = handOver(raw)
		}
		failed = append(failed, err, c.SetReadDeadline(until))
	}
	for _, l := range s.listeners {
		raw, err := l.SyscallConn()
		if err == nil {
			err = handOver(raw)
		}
		failed = append(failed, err, l.SetDeadline(until))
	}
	return errors.Join(failed...)
}

// handOver chooses the second of the sockets that share an address, for all that comes: they stand in the order of their
// coming, and the last takes the place of one that goes. Where there is no second the kernel chooses among those that there
// are, as before. (SO_ATTACH_REUSEPORT_CBPF in socket(7).)
func handOver(raw syscall.RawConn) error {
	second := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	program := &unix.SockFprog{Len: uint16(len(second)), Filter: &second[0]}
	return control(raw, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, program)
	})
}

// left reports whether something is in a socket that is drained, and has it read for a while longer then. On a busy machine its
// time may be over before its reader had a processor, and a connection in a listener that is closed is reset.
func left(socket syscall.Conn, readUntil func(time.Time) error) bool {
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	polled := []unix.PollFd{{Events: unix.POLLIN}}
	err = control(raw, func(fd int) error {
		polled[0].Fd = int32(fd)
		_, err := unix.Poll(polled, 0)
		return err
	})
	return err == nil && polled[0].Revents&unix.POLLIN != 0 && readUntil(time.Now().Add(lull)) == nil
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
