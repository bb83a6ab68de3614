// Package matrix probes every pod from every pod, by ICMP, TCP and UDP, and sets what was observed beside
// what was to be expected: pods of one Network reach each other, pods of different Networks do not.
//
// In flow pods (with the Network that their labels ask for, which is what a user means, not what the
// controller decided) and a way to run netprobe in them. Out flows a Matrix that can be printed and that has
// a verdict.
//
// Addresses of different Networks overlap, so that an answer alone proves nothing. What must stay true:
//   - a path counts as reached only when the very pod that was meant says so, by its UID in the answer and by
//     having recorded the probe's token;
//   - a path counts as apart only when the token was recorded by no pod of another Network, whether or not
//     an answer came;
//   - silence counts only from a pod that was heard elsewhere: a matrix that did not probe fails.
package matrix

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Protocols in the order in which cells show them.
var protocols = [...]wire.Protocol{wire.ICMP, wire.TCP, wire.UDP}

// Pod is one end of paths.
type Pod struct {
	Namespace, Name, UID string
	// Network is the one that the pod's owner asked for.
	Network string
	Node    string
	// Address is the pod's own, in its Network.
	Address netip.Addr
}

// String is the pod as users write it: namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Sort orders pods by Network, address and name, so that a matrix of the same pods always looks the same.
func Sort(pods []Pod) {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), a.Address.Compare(b.Address), cmp.Compare(a.String(), b.String()))
	})
}

// Outcome is what became of one path.
type Outcome uint8

// The outcomes of a path.
const (
	// Silent: nobody answered and no pod saw the token.
	Silent Outcome = iota
	// Reached: that very pod saw the token and answered.
	Reached
	// Own: the source's own Network has that address too, and its own pod answered.
	Own
	// Lost: that very pod saw the token, but no answer came back.
	Lost
	// Leaked: a pod of another Network saw the token or answered.
	Leaked
	// Stray: somebody answered or saw the token who does not hold the address.
	Stray
)

// Path is a probe of one pod by another by one protocol.
type Path struct {
	// From and To index Matrix.Pods.
	From, To int
	Protocol wire.Protocol
	Outcome  Outcome
	RTT      time.Duration
	// Witnesses are the pods that saw the token, and whoever answered, for the report of a failure.
	Witnesses []string
}

// Matrix is what was observed among Pods.
type Matrix struct {
	Pods []Pod
	// Paths of all ordered pairs and protocols, by From, To and protocol.
	Paths []Path
	// Took is the time that all probes took, together.
	Took time.Duration
}

// expectReached says whether a path between two pods must work: within a Network everything does, across
// Networks nothing.
func expectReached(from, to Pod) bool { return from.Network == to.Network }

// Count counts the paths that came out so.
func (m *Matrix) Count(o Outcome) int {
	count := 0
	for _, p := range m.Paths {
		if p.Outcome == o {
			count++
		}
	}
	return count
}

// AsExpected reports whether p came out as it should.
func (m *Matrix) AsExpected(p Path) bool {
	if expectReached(m.Pods[p.From], m.Pods[p.To]) {
		return p.Outcome == Reached
	}
	return p.Outcome == Silent || p.Outcome == Own
}
