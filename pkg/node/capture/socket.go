package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

const (
	// bufferBytes is how much the kernel keeps for a socket that nobody reads; it takes twice that for its own.
	bufferBytes = 4 << 20
	// MaxBatch and batchBytes bound what is read at once.
	MaxBatch, batchBytes = 128, 256 << 10
	// vlanTag is the length of a tag of IEEE 802.1Q, which the kernel keeps beside the frame, vlanOffset where it was.
	vlanTag, vlanOffset = 4, 12
)

// ErrInterface wraps what is wrong with the interface that was asked for.
var ErrInterface = errors.New("interface cannot be captured")

// Record is a packet that was taken.
type Record struct {
	api.PodCapturePacket
	// Link is the index of the interface, and Protocol the type of Ethernet (IEEE 802.3): they tell where it was of a socket that
	// listens at all interfaces.
	Link     int
	Protocol uint16
}

// Place runs a function in a network namespace.
type Place func(func() error) error

// Socket takes packets of one interface.
type Socket struct {
	file  *os.File
	raw   syscall.RawConn
	spec  Spec
	frame []byte
	other []byte

	mu    sync.Mutex
	stats api.PodCaptureCounts
}

// Open begins to take packets, in the network namespace that inside enters. Its error wraps ErrInterface where there is no such
// interface, or none with frames of Ethernet.
func Open(spec Spec, inside Place) (*Socket, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	s := &Socket{spec: spec, frame: make([]byte, MaxSnapLength+1), other: make([]byte, 256)}
	err := inside(func() error {
		link, err := netlink.LinkByName(spec.Interface)
		if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
			return fmt.Errorf("%w: the pod has no interface %s", ErrInterface, spec.Interface)
		}
		if err != nil {
			return fmt.Errorf("find interface %s: %w", spec.Interface, err)
		}
		kind := link.Attrs().EncapType
		if kind != "ether" && kind != "loopback" {
			return fmt.Errorf("%w: %s has frames of %s, and not of Ethernet", ErrInterface, spec.Interface, kind)
		}
		_, filter, err := spec.program(spec.Direction.sides(kind == "loopback"))
		if err != nil {
			return err
		}
		return s.listen(unix.SOCK_RAW, link.Attrs().Index, filter)
	})
	if err != nil {
		return nil, err
	}
	return s.opened()
}

// OpenAll begins to take packets of all interfaces of this network namespace, from their IP header on: a Record's Data, and what
// filter is asked about, have no link layer's header, which interfaces of tunnels have not alike.
func OpenAll(filter []bpf.RawInstruction) (*Socket, error) {
	s := &Socket{spec: Spec{Interface: "all interfaces"}, frame: make([]byte, MaxSnapLength+1), other: make([]byte, 256)}
	if err := s.listen(unix.SOCK_DGRAM, 0, filter); err != nil {
		return nil, err
	}
	return s.opened()
}

func (s *Socket) opened() (*Socket, error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a packet socket: %w", err), s.file.Close())
	}
	s.raw = raw
	return s, nil
}

// listen opens the socket in this network namespace. It is bound, and so gets its first packet, when the filter is there. Index 0
// is all interfaces.
func (s *Socket) listen(kind, index int, filter []bpf.RawInstruction) error {
	// Of protocol 0 is nothing.
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	code := make([]unix.SockFilter, len(filter))
	for i, f := range filter {
		code[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	err = errors.Join(
		named("attach the filter",
			unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})),
		named("ask for times", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)),
		named("ask for lengths", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)),
		named("make a buffer", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferBytes)),
	)
	if err == nil {
		err = named("bind it", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("open a packet socket: %w", err), unix.Close(fd))
	}
	s.file = os.NewFile(uintptr(fd), "packets of "+s.spec.Interface)
	return nil
}

func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// Close ends it.
func (s *Socket) Close() error { return s.file.Close() } //nolint:wrapcheck // It says what it is.

// Interrupt has Batch return what there is.
func (s *Socket) Interrupt() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

// Batch are the next packets: at least one, unless it is too late. Its error is that there will be no more.
func (s *Socket) Batch(until time.Time) ([]Record, error) {
	if err := s.file.SetReadDeadline(until); err != nil {
		return nil, fmt.Errorf("read packets: %w", err)
	}
	var (
		out    []Record
		failed error
	)
	err := s.raw.Read(func(fd uintptr) bool {
		for bytes := 0; len(out) < MaxBatch && bytes < batchBytes; {
			r, err := s.receive(int(fd))
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if failed = err; err != nil {
				return true
			}
			bytes += len(r.Data)
			out = append(out, r)
		}
		return len(out) > 0
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	if failed == nil {
		failed = err
	}
	switch {
	case errors.Is(failed, unix.ENETDOWN):
		failed = fmt.Errorf("interface %s was taken down, or is gone", s.spec.Interface)
	case failed != nil:
		failed = fmt.Errorf("read packets: %w", failed)
	}
	return out, failed
}

// receive reads one packet.
func (s *Socket) receive(fd int) (Record, error) {
	for {
		n, noob, _, from, err := unix.Recvmsg(fd, s.frame, s.other, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Record{}, err //nolint:wrapcheck // Batch tells one from another.
		}
		r := Record{PodCapturePacket: api.PodCapturePacket{Length: n, Data: append([]byte(nil), s.frame[:n]...)}}
		if link, ok := from.(*unix.SockaddrLinklayer); ok {
			r.Out, r.Link, r.Protocol = link.Pkttype == unix.PACKET_OUTGOING, link.Ifindex, networkOrder(link.Protocol)
		}
		s.beside(&r, s.other[:noob])
		if r.Time == 0 {
			r.Time = time.Now().UnixNano()
		}
		return r, nil
	}
}

// beside reads what the kernel says of a packet: when it was there, how long it was, and a VLAN's tag, which is put back to where it was.
func (s *Socket) beside(r *Record, text []byte) {
	messages, err := unix.ParseSocketControlMessage(text)
	if err != nil {
		return
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			r.Time = (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano() //nolint:gosec // The kernel wrote it.
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA &&
			len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0])) //nolint:gosec // The kernel wrote it.
			r.Length = max(r.Length, int(aux.Len))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && len(r.Data) >= vlanOffset && s.spec.SnapLength > 0 {
				tpid := uint16(unix.ETH_P_8021Q)
				if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
					tpid = aux.Vlan_tpid
				}
				tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), aux.Vlan_tci)
				whole := append(append(append([]byte(nil), r.Data[:vlanOffset]...), tag...), r.Data[vlanOffset:]...)
				r.Data, r.Length = whole[:min(len(whole), s.spec.SnapLength)], r.Length+vlanTag
			}
		}
	}
}

// Stats are what was counted since it was opened.
func (s *Socket) Stats() (api.PodCaptureCounts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var (
		stats *unix.TpacketStats
		err   error
	)
	controlled := s.raw.Control(func(fd uintptr) {
		// It begins at zero each time that it is read.
		stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err = errors.Join(controlled, err); err != nil {
		return s.stats, fmt.Errorf("read how many packets were dropped: %w", err)
	}
	s.stats.Received += uint64(stats.Packets)
	s.stats.Dropped += uint64(stats.Drops)
	return s.stats, nil
}
