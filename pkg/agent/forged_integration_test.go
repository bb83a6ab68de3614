//go:build integration

package agent

import (
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/frames"
)

// TestForgedNeighbours: whatever a pod sends in the name of another, by Ethernet, IP, ARP and neighbour discovery, does not come to its
// neighbours, nor does a frame with a VLAN's tag. Without the port's security, and with tags passed through, all of it does.
func TestForgedNeighbours(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	attacker, victim := n.addGuest(a, "red", "attacker", 5, 5), n.addGuest(a, "red", "victim", 6, 6)
	third := n.addGuest(a, "red", "third", 7, 7)
	arrives := victim.sniff()
	players := frames.Players{
		Sender: attacker.end(), Receiver: victim.end(), Third: third.end(), Router4: attacker.nic.Gateways[0], Router6: attacker.nic.Gateways[1],
	}
	honest := players.Honest()
	try := func(what string, table frames.Table, want bool) {
		t.Helper()
		for name, made := range table {
			t.Run(name+", "+what, func(t *testing.T) {
				attacker.sendAll(made("marked " + name + "."))
				if !want {
					// Frames of a port keep their order: this one comes last.
					attacker.sendAll(honest["IPv4"]("last of " + name + "."))
				}
				got := arrives("marked "+name+".", 300*time.Millisecond)
				// Open vSwitch judges by what it has cached for a moment more than the rows are there.
				for tries := 0; want && !got && tries < 20; tries++ {
					attacker.sendAll(made("marked " + name + "."))
					got = arrives("marked "+name+".", 300*time.Millisecond)
				}
				if got != want {
					t.Errorf("it arrives: %t, want %t", got, want)
				}
			})
		}
	}
	try("honest", honest, true)
	try("held", players.Masks(), false)
	try("held", players.Tagged(), false)
	n.nbctl("--wait=hv", "set", "Logical_Switch", "red", "other_config:vlan-passthru=true")
	try("passed through", players.Tagged(), true)
	n.nbctl("--wait=hv", "lsp-set-port-security", attacker.request.Pod.Key().String())
	try("without port security", players.Masks(), true)
}
