// Package observe sees marked packets (ping.Mark) on their way through a node, and the answers to them, at all interfaces of a
// network namespace at once: as they are there, with whatever addresses and ports they have by then, and in the tunnels between
// nodes.
//
//	Watch ── program: in the kernel ──▶ capture.Socket ── Watch.read ──▶ Sighting ── Run: the first of each place ──▶ each
//
// What must stay true: nothing is told but of packets with the mark, and of answers to these. What is told is bounded in number
// and in time.
package observe

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// The bounds of one Watch.
const (
	// MaxTime is how long it may take.
	MaxTime = 10 * time.Second
	// MaxPorts is how many ports of answers it has.
	MaxPorts = 8
	// MaxSightings is how many are told: each of at most MaxTargets packets is seen a few times in each direction on a node.
	MaxSightings = 256
)

// Watch says which packets are looked for: those of a ping.Spec with a Mark.
type Watch struct {
	Protocol model.Protocol `json:"protocol"`
	Mark     ping.Mark      `json:"mark"`
	// Targets is how many addresses the ping.Spec is sent to: 1 to ping.MaxTargets.
	Targets int `json:"targets"`
	// Ports are where answers to datagrams come from: the one that is dialled, and what a load balancer makes of it. Answers to
	// datagrams have no mark: they are those from whom, and to whom, a datagram was seen at the same place.
	Ports []uint16 `json:"ports,omitempty"`
	// Time is how long it watches, MaxTime at most; in nanoseconds in JSON.
	Time time.Duration `json:"time"`
}

// Check says what is wrong with it.
func (w Watch) Check() error {
	switch {
	case !slices.Contains([]model.Protocol{ping.ICMP, model.TCP, model.UDP}, w.Protocol):
		return fmt.Errorf("protocol: %q is none of icmp, tcp and udp", w.Protocol)
	case w.Mark == ping.Mark{}:
		return fmt.Errorf("mark: there is none")
	case w.Targets < 1 || w.Targets > ping.MaxTargets:
		return fmt.Errorf("targets: %d is not between 1 and %d", w.Targets, ping.MaxTargets)
	case len(w.Ports) > MaxPorts || slices.Contains(w.Ports, 0):
		return fmt.Errorf("ports: %v are more than %d, or one is 0", w.Ports, MaxPorts)
	case w.Time <= 0 || w.Time > MaxTime:
		return fmt.Errorf("time: %s is not between 0s and %s", w.Time, MaxTime)
	}
	return nil
}

// Packet is one that is looked for, as it was at a place.
type Packet struct {
	// Target is the number of the one that it was sent to.
	Target int `json:"target"`
	// Answer: it is the answer to it. Refusal: one that refuses, a reset or an error of ICMP.
	Answer  bool `json:"answer,omitempty"`
	Refusal bool `json:"refusal,omitempty"`
	// From and To are who has it sent to whom, as it says here. Ports are 0 for ICMP.
	From netip.AddrPort `json:"from"`
	To   netip.AddrPort `json:"to"`
	// Tunnel are the ends of the tunnel that it is in; the zero Tunnel where it is in none.
	Tunnel Tunnel `json:"tunnel,omitzero"`
}

// Tunnel are the addresses of two nodes.
type Tunnel struct {
	From netip.Addr `json:"from"`
	To   netip.Addr `json:"to"`
}

// Sighting is that a packet was at an interface, for the first time.
type Sighting struct {
	Packet
	// Link is the interface's index. Out: the packet left by it, else it came in.
	Link int
	Out  bool
	// Time is by the node's clock, in nanoseconds since 1970.
	Time int64
}
