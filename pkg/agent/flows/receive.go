package flows

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/ovs/ipfix"
)

const (
	// buffer is what waits in the kernel, in bytes: some 10,000 records.
	buffer = 8 << 20
	// longest is the longest datagram.
	longest  = 1 << 16
	loopback = "lo"
)

// received counts what comes from Open vSwitch.
type received struct {
	// records, and datagrams that are none of IPFIX, or that no template was known for.
	records, malformed, unknown atomic.Uint64
}

// listen opens a socket on the loopback interface and on no other. A destination of 127.0.0.1 alone would not do: with
// route_localnet, which kube-proxy switches on, the kernel takes packets to it from other interfaces, too.
func listen(ctx context.Context) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var problem error
		err := c.Control(func(fd uintptr) {
			problem = errors.Join(
				unix.BindToDevice(int(fd), loopback),
				// It may not be allowed beyond what the system has, and then that must do.
				ignored(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)),
				ignored(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer)),
			)
		})
		return errors.Join(err, problem)
	}}
	conn, err := config.ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for samples: %w", err)
	}
	return conn, nil
}

func ignored(error) error { return nil }

// all reads until ctx ends and the connection is closed.
func (r *received) all(ctx context.Context, conn net.PacketConn, to chan<- []ipfix.Record) {
	decoder, text := ipfix.NewDecoder(), make([]byte, longest)
	for {
		n, _, err := conn.ReadFrom(text)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		var records []ipfix.Record
		if err := decoder.Decode(text[:n], func(one ipfix.Record) { records = append(records, one) }); err != nil {
			r.malformed.Add(1)
		}
		r.unknown.Store(decoder.Unknown)
		if len(records) == 0 {
			continue
		}
		r.records.Add(uint64(len(records)))
		// What has no room waits in the kernel, and is lost there when that has none.
		select {
		case to <- records:
		case <-ctx.Done():
			return
		}
	}
}
