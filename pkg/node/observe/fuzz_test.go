package observe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// FuzzPacket: whatever a tenant's pod puts on a link is read without a panic. What is known for sure has the mark within, of a
// target that there is, and the kernel's filter lets it through.
func FuzzPacket(f *testing.F) {
	mark := ping.Mark{1, 2, 3, 4, 5, 6, 7, 8}
	const targets = 2
	var watches []Watch
	var machines []*bpf.VM
	for _, protocol := range []model.Protocol{model.TCP, model.UDP, ping.ICMP} {
		w := Watch{Protocol: protocol, Mark: mark, Targets: targets, Ports: []uint16{80}, Time: time.Second}
		program, _, err := w.program()
		if err != nil {
			f.Fatal(err)
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			f.Fatal(err)
		}
		watches, machines = append(watches, w), append(machines, vm)
	}
	n, p := mark.Sequence(1), mark.Payload(1)
	for _, s := range []scene{{f, false, false, mark}, {f, true, false, mark}, {f, false, true, mark}, {f, true, true, mark}} {
		for _, packet := range [][]byte{
			s.tcp(false, n, 0, syn), s.tcp(true, 99, n+1, syn, ack), s.tcp(true, 0, n+1, rst, ack), s.icmp(true, 3,
				1, s.bare().tcp(false, n, 0, syn)),
			s.udp(false, 1000, 80, p), s.udp(true, 80, 1000, []byte("x")), s.icmp(true, 3, 1, s.bare().udp(false, 1000, 80, p)),
			s.icmp(false, 8, 128, p), s.icmp(true, 0, 129, p), s.icmp(true, 11, 3, s.bare().icmp(false, 8, 128, p)),
		} {
			f.Add(packet)
		}
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) == 0 {
			return // No link has such a packet, and the machine of filters refuses it.
		}
		for i, w := range watches {
			got, unsure, ok := w.read(packet)
			if !ok {
				continue
			}
			sure := !unsure
			if sure && (got.Target < 0 || got.Target >= targets || !has(packet, w, got.Target)) {
				t.Errorf("%s: %x is read as %+v", w.Protocol, packet, got)
			}
			passes, err := machines[i].Run(packet)
			if err != nil {
				t.Fatal(err)
			}
			if sure && passes == 0 {
				t.Errorf("%s: the filter rejects %x, which is %+v", w.Protocol, packet, got)
			}
		}
	})
}

// has reports whether the mark of a target is anywhere in a packet.
func has(packet []byte, w Watch, target int) bool {
	if w.Protocol != model.TCP {
		return bytes.Contains(packet, w.Mark.Payload(target))
	}
	number := w.Mark.Sequence(target)
	return bytes.Contains(packet, binary.BigEndian.AppendUint32(nil, number)) ||
		bytes.Contains(packet, binary.BigEndian.AppendUint32(nil, number+1))
}
