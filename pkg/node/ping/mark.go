package ping

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// markSize is how many bytes a Mark has.
const markSize = 16

// Mark is by what a packet can be known again wherever it passes, whatever became of its addresses and ports on the way. Each
// target of a Spec has one of its own. Datagrams and echo requests begin their payload with it, which the answer to an echo
// request repeats. A connection has its last 4 bytes as the initial sequence number, which its answer, SYN-ACK or reset,
// acknowledges plus one (RFC 9293, section 3.5).
type Mark [markSize]byte

// NewMark makes one at random: who cannot see the packets cannot make any that pass for them.
func NewMark() (Mark, error) {
	for {
		var m Mark
		if _, err := rand.Read(m[:]); err != nil {
			return m, fmt.Errorf("make a mark: %w", err)
		}
		if m.whole() {
			return m, nil
		}
	}
}

// whole reports whether all of its numbers are marks: 0 would have the kernel choose another one.
func (m Mark) whole() bool {
	for n := range MaxTargets {
		if m.Sequence(n) == 0 || m.Sequence(n)+1 == 0 {
			return false
		}
	}
	return true
}

// Sequence is the initial sequence number of the connection to a target of a number.
func (m Mark) Sequence(target int) uint32 {
	// A short connection's later sequence numbers are not those of the next.
	return binary.BigEndian.Uint32(m[markSize-4:]) + uint32(target)<<20
}

// Payload is how the payload to a target of a number begins.
func (m Mark) Payload(target int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(nil), m[:markSize-4]...), m.Sequence(target))
}

// MarshalText implements encoding.TextMarshaler.
func (m Mark) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, m[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mark) UnmarshalText(text []byte) error {
	read, err := hex.DecodeString(string(text))
	if err != nil || len(read) != markSize || !Mark(read).whole() {
		return errors.New("that is no mark")
	}
	*m = Mark(read)
	return nil
}

// dialer makes connections to a target of a number.
func (s Spec) dialer(target int) *net.Dialer {
	if s.Mark == nil {
		return &net.Dialer{}
	}
	sequence := s.Mark.Sequence(target)
	return &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = setSequence(int(fd), sequence) })
		return errors.Join(err, failed)
	}}
}

// setSequence has a connection that is not made yet begin with a sequence number. The kernel lets who restores connections choose
// it, and keeps what was chosen: it makes one itself where there is none (tcp_v4_connect). All else of the connection is as of
// any other one.
func setSequence(fd int, sequence uint32) error {
	// linux/tcp.h has these, and x/sys/unix has not.
	const repairOff, sendQueue = 0, 2
	steps := []struct {
		what          string
		option, value int
	}{
		{"choose the sequence number", unix.TCP_REPAIR, 1},
		{"choose the direction", unix.TCP_REPAIR_QUEUE, sendQueue},
		{"set the sequence number", unix.TCP_QUEUE_SEQ, int(int32(sequence))},
		{"begin as usual", unix.TCP_REPAIR, repairOff},
	}
	for _, step := range steps {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, step.option, step.value); err != nil {
			return fmt.Errorf("mark a connection: %s: %w", step.what, err)
		}
	}
	return nil
}
