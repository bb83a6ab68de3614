//go:build integration

package porthole

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// TestAnsweredWaitsForTheRouter: there is no answer before the router gives one, and others' answers are none.
func TestAnsweredWaitsForTheRouter(t *testing.T) {
	k, spec := keeper(t), testSpec("asked")
	must(t, k.EnsureHost(testHost()))
	must(t, k.Ensure(spec))
	short, cancel := context.WithTimeout(t.Context(), 5*askAgain)
	defer cancel()
	if err := k.Answered(short, spec.id()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without anybody on the other side: %v", err)
	}
	router := model.EdgeAddresses()[0].Addr().AsSlice()
	answering(t, spec.id().Name(), router[0], router[1], router[2], router[3]+100)
	short, cancel = context.WithTimeout(t.Context(), 5*askAgain)
	defer cancel()
	if err := k.Answered(short, spec.id()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with an answer about another address: %v", err)
	}
	answering(t, spec.id().Name(), router...)
	long := wait.Context(t, 10*time.Second)
	must(t, k.Answered(long, spec.id()))
}

// TestAnsweredWithoutAPorthole is an error at once.
func TestAnsweredWithoutAPorthole(t *testing.T) {
	if err := keeper(t).Answered(t.Context(), IDOf("nobody")); err == nil {
		t.Error("no error")
	}
}

// answering answers each ARP request that comes out of a link with an address, whatever was asked, until the test ends.
func answering(t *testing.T, link string, address ...byte) {
	t.Helper()
	at, err := net.InterfaceByName(link)
	must(t, err)
	arp := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ARP))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: arp, Ifindex: at.Index}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 10_000}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		frame := make([]byte, 128)
		for t.Context().Err() == nil {
			n, err := unix.Read(fd, frame)
			if err != nil || n < frameHeader+arpLength {
				continue
			}
			asked := frame[frameHeader : frameHeader+arpLength]
			answer := slices.Concat(asked[8:14], at.HardwareAddr, frame[12:14], asked[:6], []byte{0, arpAnswer}, at.HardwareAddr, address,
				asked[8:18])
			// Whoever asked may have gone.
			_, _ = unix.Write(fd, answer)
		}
	}()
	t.Cleanup(func() { <-ended; must(t, unix.Close(fd)) })
}
