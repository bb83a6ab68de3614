package porthole

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// askAgain is how long an answer of the router, which is in the next process, is waited for at first before it is asked again.
// Each further wait is twice as long, up to askSeldom: on a busy node the answers come late, and many who ask would have
// the switch do nothing else.
const (
	askAgain  = 10 * time.Millisecond
	askSeldom = 320 * time.Millisecond
)

// Answered waits until the Network's router answers in its porthole: then all of the Network's flows are on this node.
//
// That a port is installed does not say so. With the first port of a Network on a node, ovn-controller begins to read the
// Network's flows, and marks the port as installed without waiting for them: seen up to 12 ms before, on a machine with nothing
// between it and the database. (OVN 25.03 with ovn-monitor-all=false, the default.) They come all at once, in one transaction
// and one bundle.
//
// The error says that there was no answer, and with what ctx ended.
func (k *Keeper) Answered(ctx context.Context, id ID) error {
	link, err := openPacket(id)
	if err != nil {
		return fmt.Errorf("ask the Network's router in porthole %s: %w", id, err)
	}
	// Linux waits, with each socket of this kind that is closed, until no processor can be using it.
	defer func() { go link.Close() }()
	for patience := askAgain; ; patience = min(2*patience, askSeldom) {
		if ctx.Err() != nil {
			return fmt.Errorf("the Network's router does not answer in its porthole %s: %w", id.Name(), context.Cause(ctx))
		}
		answered, err := askRouter(link, patience)
		if err != nil {
			return fmt.Errorf("ask the Network's router in porthole %s: %w", id, err)
		}
		if answered {
			return nil
		}
	}
}

// openPacket opens the porthole's side of the Network for ARP.
func openPacket(id ID) (*os.File, error) {
	netns, err := ns.GetNS(id.NetnsPath())
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	defer netns.Close()
	fd := -1
	err = inside(netns, func() error {
		link, err := net.InterfaceByName(networkSide)
		if err != nil {
			return err
		}
		arp := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ARP))
		// Of no protocol until it is bound: it is to hear of this link alone.
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: arp, Ifindex: link.Index})
	})
	if err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, err
	}
	return os.NewFile(uintptr(fd), networkSide), nil
}

// askRouter asks for the router's address once, and waits for the answer, be it to an earlier question.
func askRouter(link *os.File, patience time.Duration) (bool, error) {
	router, own := model.EdgeAddresses()[0].Addr(), model.PortholeAddresses()[0].Addr()
	question, err := arpRequest(model.PortholeMAC, own, router)
	if err != nil {
		return false, err
	}
	if _, err := link.Write(question); err != nil {
		return false, err
	}
	if err := link.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	frame := make([]byte, 128)
	for {
		n, err := link.Read(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if isReply(frame[:n], router) {
			return true, nil
		}
	}
}

// Lengths and places in a frame with ARP for IPv4. (RFC 826.)
const (
	frameHeader = 14
	arpLength   = 28
	arpAsk      = 1
	arpAnswer   = 2
)

// arpRequest is a frame that asks who has an address.
func arpRequest(mac string, from, who netip.Addr) ([]byte, error) {
	sender, err := net.ParseMAC(mac)
	if err != nil {
		return nil, fmt.Errorf("read MAC address: %w", err)
	}
	frame := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, sender)
	for _, field := range []uint16{unix.ETH_P_ARP, unix.ARPHRD_ETHER, unix.ETH_P_IP, 6<<8 | 4, arpAsk} {
		frame = binary.BigEndian.AppendUint16(frame, field)
	}
	return slices.Concat(frame, sender, from.AsSlice(), make([]byte, 6), who.AsSlice()), nil
}

// isReply reports whether a frame says who has an address.
func isReply(frame []byte, who netip.Addr) bool {
	if len(frame) < frameHeader+arpLength {
		return false
	}
	arp := frame[frameHeader:]
	return binary.BigEndian.Uint16(arp[6:]) == arpAnswer && slices.Equal(arp[14:18], who.AsSlice())
}
