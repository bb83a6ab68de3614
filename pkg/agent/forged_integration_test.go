//go:build integration

package agent

import (
	"testing"

	"github.com/atoll-net/atoll/test/frames"
)

// TestForgedNeighbours: whatever a pod sends in the name of another, by Ethernet, IP, ARP and neighbour discovery, does not come to its
// neighbours, nor does a frame with a VLAN's tag. Without the port's security, and with tags passed through, all of it does.
func TestForgedNeighbours(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	attacker, victim := n.addGuest(a, "red", "attacker", 5, 5), n.addGuest(a, "red", "victim", 6, 6)
	third := n.addGuest(a, "red", "third", 7, 7)
	came := victim.inbox()
	players := frames.Players{
		Sender: attacker.end(), Receiver: victim.end(), Third: third.end(), Router4: attacker.nic.Gateways[0], Router6: attacker.nic.Gateways[1],
	}
	honest := players.Honest()
	try := func(what string, table frames.Table, want bool) {
		t.Helper()
		for name, made := range table {
			t.Run(name+", "+what, func(t *testing.T) {
				text := "marked " + name + "."
				send := func() { attacker.sendAll(made(text)) }
				if want {
					came.forget()
					came.wantArrival(t, text, send)
					return
				}
				// Frames of a port keep their order.
				came.never(t, text, send, func(mark string) { attacker.sendAll(honest["IPv4"](mark)) })
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
