package central

import (
	"cmp"
	"errors"
	"net/netip"
	"strings"
)

// Raft is how the others reach a member's server.
type Raft string

const (
	// Relayed: by relays. The server listens at a socket of its node, and the relay in front of it knows who comes.
	Relayed Raft = "relayed"
	// Direct: the server itself listens at the network. So it was before there were relays; a member whose file says so joins anew
	// (Keeper.relay).
	Direct Raft = "direct"
	// A member whose record says neither has a version without relays.
)

// RaftPort is where the server of a member that is reached directly listens.
func (k Kind) RaftPort() uint16 {
	if k == Northbound {
		return 6643
	}
	return 6644
}

// RelayPort is where a member's relay listens.
func (k Kind) RelayPort() uint16 {
	if k == Northbound {
		return 16643
	}
	return 16644
}

// raftSocket is the name of the socket at which a member's server is reached: on its own node its server listens there, on each
// other member's node a relay. Open vSwitch takes the text up to the first dot for the server's name.
func raftSocket(kind Kind, a netip.Addr) string {
	return string(kind) + "-" + strings.NewReplacer(".", "-", ":", "-").Replace(a.String()) + ".raft"
}

// raftAddress is a server's address in the form of ovsdb(7). A socket's name without a directory is one in OVS_RUNDIR, which is
// the same for all members whatever their directories are.
func raftAddress(kind Kind, a netip.Addr, by Raft) string {
	if by == Relayed {
		return "unix:" + raftSocket(kind, a)
	}
	return Remote(a, kind.RaftPort())
}

// raftAddress is the address of a member's server in its cluster. A record without a word was written by a version without relays.
func (m Member) raftAddress(kind Kind) string {
	return raftAddress(kind, m.Address, cmp.Or(m.Raft, Direct))
}

// raft says how this member is reached when its file has an address. own is false where the address is not this member's.
func (s Situation) raft(address string) (by Raft, own bool) {
	for _, by := range []Raft{Relayed, Direct} {
		if address == raftAddress(s.Kind, s.Address, by) {
			return by, true
		}
	}
	return "", false
}

// wanted is the address of a file that is made now.
func (s Situation) wanted() string {
	by := Relayed
	for _, m := range s.Record.Members {
		if m.Node != s.Node && m.ServerID != "" && m.Raft == "" {
			by = Direct // It has no relay that would lead to us.
		}
	}
	return raftAddress(s.Kind, s.Address, by)
}

// enoughOthers is how many others there must be when a member leaves the cluster to join it anew: they are a quorum without it.
const enoughOthers = 2

// mayLeave reports whether a member may leave to join anew: all others are there, with relays.
func (d Database) mayLeave(node string) bool {
	others := 0
	for _, m := range d.Members {
		if m.Node == node {
			continue
		}
		if m.ServerID == "" || m.Lost || m.Raft == "" {
			return false
		}
		others++
	}
	return others >= enoughOthers
}

// errJoinsAnew says why a server ends that serves well.
var errJoinsAnew = errors.New("this member joins anew, to be reached by relays")
