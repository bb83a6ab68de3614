//go:build e2e

package hostile

import (
	"testing"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestForgedSource: a pod that may send any frame claims to be another. Nothing of it leaves its port.
func TestForgedSource(t *testing.T) {
	strong, near, far := member(t, "attackers/strong"), member(t, "attackers/near"), member(t, "attackers/far")
	own := cluster.AttachmentOf(t, strong)
	var attacks []attack
	for _, victim := range []struct {
		name string
		to   string
	}{{"on its node", "attackers/near"}, {"on another node", "attackers/far"}} {
		target := member(t, victim.to)
		to := cluster.AttachmentOf(t, target)
		// A neighbour that is not known yet is none that a frame by hand would find.
		env.Reach(t, strong, target)
		for _, claim := range []struct{ name, mac, source string }{
			{"an address of nobody", own.MAC, "10.0.0.200"},
			{"the gateway's address", own.MAC, "10.0.0.1"},
			{"a neighbour's address", own.MAC, cluster.OwnAddress(t, near)},
			{"another MAC address", "0a:58:0a:00:00:c8", own.Addresses[0].Addr().String()},
			{"a neighbour and all that is his", cluster.AttachmentOf(t, far).MAC, cluster.OwnAddress(t, far)},
		} {
			if claim.source == cluster.OwnAddress(t, target) {
				continue // a machine takes no packet that comes from itself
			}
			attacks = append(attacks, attack{
				claim.name + ", to a pod " + victim.name,
				forges(t, strong, target, near, "-source", claim.source, "-source-mac", claim.mac,
					"-target", to.Addresses[0].Addr().String(), "-target-mac", to.MAC),
			})
		}
	}
	rows("port security", "lsp-set-port-security", "attackers/strong").holds(t, attacks...)
}

// TestForgedTarget: frames addressed by hand to a pod of another Network, straight and by way of either router. What keeps
// them apart is that the two are on switches of their own.
func TestForgedTarget(t *testing.T) {
	strong, near := member(t, "attackers/strong"), member(t, "attackers/near")
	source := cluster.OwnAddress(t, strong)
	var straight []attack
	for _, name := range []string{"victims/near", "victims/far"} {
		victim := member(t, name)
		to := cluster.AttachmentOf(t, victim)
		for what, mac := range map[string]string{
			"its MAC address": to.MAC, "everybody": "ff:ff:ff:ff:ff:ff",
		} {
			straight = append(straight, attack{
				"a frame for " + name + " to " + what,
				forges(t, strong, victim, near, "-source", source, "-target", to.Addresses[0].Addr().String(), "-target-mac", mac),
			})
		}
		for _, router := range []string{"attackers/a:gateway", "victims/a:gateway"} {
			by := attack{"a frame for " + name + " by the router's port " + router, forges(t, strong, victim, near, "-source", source,
				"-target", to.Addresses[0].Addr().String(), "-target-mac", env.RouterMAC(t, router))}
			if err := all(t.Context(), []attack{by}, held); err != nil {
				t.Error(err)
			}
		}
	}
	// The victims' ports move to the attackers' switch.
	var move []string
	for _, name := range []string{"victims/near", "victims/far"} {
		port := env.NB.Port(t, name).UUID
		move = append(move, "--", "remove", "Logical_Switch", "victims/a", "ports", port, "--", "add", "Logical_Switch", "attackers/a", "ports",
			port)
	}
	rows("a switch of its own for each Network", move...).holds(t, straight...)
}
