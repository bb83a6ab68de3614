//go:build integration

package porthole

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// told are differences as lines.
func told(all []api.NodeDifference) string {
	var out strings.Builder
	for _, d := range all {
		fmt.Fprintf(&out, "%s | %s | %s | %s\n", d.Kind, d.Object, d.Want, d.Have)
	}
	return out.String()
}

// more stands for further lines.
const more = "..."

// reviewed is what a review tells of a porthole and of the node, which it must leave as they are.
func reviewed(t *testing.T, k *Keeper, spec Spec, host Host) (porthole, node []api.NodeDifference) {
	t.Helper()
	r, err := k.Review()
	must(t, err)
	defer r.Close()
	// Twice: what the first leaves in its draft is nothing to the second.
	for range 2 {
		porthole, err = r.Porthole(spec)
		must(t, err)
		node, err = r.Host(host)
		must(t, err)
	}
	return porthole, node
}

// TestReviewFindsDamage: each kind of damage is named by its object, nothing else is, nothing is changed by looking, and the
// repair leaves nothing to find.
func TestReviewFindsDamage(t *testing.T) {
	k, spec, host := keeper(t), testSpec("u1"), testHost()
	repair := func() {
		t.Helper()
		must(t, k.EnsureHost(host))
		must(t, k.Repair(spec))
		must(t, netdev.Guard()) // As a sweep does.
	}
	repair()
	well := func() {
		t.Helper()
		porthole, node := reviewed(t, k, spec, host)
		if text := told(porthole) + told(node); text != "" {
			t.Fatalf("of what is well is told:\n%s", text)
		}
	}
	well()
	in, name, link := "ip netns exec "+spec.id().Name()+" ", spec.id().Name(), spec.id().HostLink()
	for what, c := range map[string]struct {
		damage []string
		// wants are beginnings of lines: one for each that is told.
		wants []string
	}{
		"an element gone": {
			[]string{in + "nft delete element inet atoll pods4 {10.0.0.5}"}, []string{
				"object-missing | nft atoll set pods4 in " + name + " | 10.0.0.5 |",
			},
		},
		"an element of a map gone": {
			[]string{in + "nft delete element inet atoll own6 {fd64::5}"}, []string{
				"object-missing | nft atoll set own6 in " + name + " | fd64::5 : fd00:10::5 |",
			},
		},
		"an element too many": {
			[]string{in + "nft add element inet atoll pods4 {10.0.0.99}"}, []string{
				"object-surplus | nft atoll set pods4 in " + name + " |  | 10.0.0.99",
			},
		},
		"a range gone": {
			[]string{in + "nft delete element inet atoll infra4 {10.96.0.0/16}"}, []string{
				"object-missing | nft atoll set infra4 in " + name + " | 10.96.0.0/16 |",
			},
		},
		"an endpoint too many": {
			[]string{in + "nft add element inet atoll servers4 {192.0.2.9 . 6443}"}, []string{
				"object-surplus | nft atoll set servers4 in " + name + " |  | 192.0.2.9:6443",
			},
		},
		"a chain emptied": {
			[]string{in + "nft flush chain inet atoll refuse"}, []string{
				"object-missing | nft atoll chain refuse in " + name + " | rule 1 of 2:",
				"object-missing | nft atoll chain refuse in " + name + " | rule 2 of 2:",
			},
		},
		"a rule too many": {
			[]string{in + "nft insert rule inet atoll forward accept"}, []string{
				"object-surplus | nft atoll chain forward in " + name + " |  | rule 1 of 4: accept",
			},
		},
		"a rule with an unknown word": {
			[]string{in + "nft insert rule inet atoll forward rt mtu 1000 accept"}, []string{
				"object-surplus | nft atoll chain forward in " + name + " |  | rule 1 of 4: accept",
			},
		},
		"a rule twice": {
			[]string{in + "nft add rule inet atoll forward ct state invalid drop"}, []string{"object-surplus | nft atoll chain forward in " + name},
		},
		"a policy changed": {
			[]string{in + "nft 'chain inet atoll forward { policy accept; }'"}, []string{"object-differs | nft atoll chain forward in " + name},
		},
		"a chain too many": {
			[]string{in + "nft add chain inet atoll mine"}, []string{"object-surplus | nft atoll chain mine in " + name},
		},
		"a set too many": {
			[]string{in + "nft 'add set inet atoll mine { type ipv4_addr; }'"}, []string{"object-surplus | nft atoll set mine in " + name},
		},
		"a map of verdicts too many": {
			[]string{in + "nft 'add map inet atoll mine { type ipv4_addr . inet_service : verdict; elements = { 192.0.2.1 . 80 : jump refuse }; }'"},
			[]string{"object-surplus | nft atoll set mine in " + name},
		},
		"a table asleep": {
			[]string{in + "nft 'add table inet atoll { flags dormant; }'"}, []string{"object-differs | nft table atoll in " + name},
		},
		"a table gone": {
			[]string{in + "nft delete table inet atoll"}, []string{"object-missing | nft table atoll in " + name},
		},
		"a link down": {
			[]string{"ip link set " + link + " down"}, []string{"object-differs | link " + link + " | up | down", more},
		},
		"another MTU": {
			[]string{"ip link set " + name + " mtu 1300"}, []string{"object-differs | link " + name + " | MTU 1442 | MTU 1300"},
		},
		"a link gone": {[]string{"ip link del " + name}, []string{"object-missing | link " + name}},
		"an address gone": {
			[]string{in + "ip address del 10.96.0.10/32 dev lo"}, []string{"object-missing | addresses of lo in " + name + " | 10.96.0.10/32 |"},
		},
		"an address too many": {
			[]string{in + "ip address add 192.0.2.77/32 dev lo"}, []string{"object-surplus | addresses of lo in " + name + " |  | 192.0.2.77/32"},
		},
		"a route gone": {
			[]string{in + "ip route del 10.0.0.0/24"}, []string{"object-missing | routes in " + name + " | 10.0.0.0/24 via"},
		},
		"a rule of routes gone": {
			[]string{in + "ip rule del pref 100"}, []string{"object-missing | routing rule for IPv4 in " + name},
		},
		"a neighbour changed": {
			[]string{in + "ip neigh replace 169.254.100.5 lladdr 02:00:00:00:00:99 nud permanent dev host0"},
			[]string{"object-differs | neighbour 169.254.100.5 of host0 in " + name},
		},
		"a setting": {
			[]string{in + "sysctl -qw net.ipv4.conf.host0.accept_redirects=1"}, []string{
				"object-differs | setting ipv4 accept_redirects of host0 in " + name + " | 0 | 1",
			},
		},
		"the namespace gone": {[]string{"umount " + spec.id().NetnsPath()}, []string{"object-missing | network namespace " + name}},
		"a face's route gone": {
			[]string{"ip route del 100.64.0.5"}, []string{"object-missing | routes | 100.64.0.5/32 via 169.254.100.6 dev " + link},
		},
		"a face led elsewhere": {
			[]string{"ip route del 100.64.0.5", "ip route add 100.64.0.5/32 dev " + link + " proto 167"},
			[]string{"object-missing | routes | 100.64.0.5/32 via", "object-surplus | routes |  | 100.64.0.5/32 dev"},
		},
		"the node's table: an element": {
			[]string{"nft delete element inet atoll tunnels {6081}"}, []string{"object-missing | nft atoll set tunnels | 6081 |"},
		},
		"the node's table: an interface": {
			[]string{"nft flush set inet atoll direct"}, []string{"object-missing | nft atoll set direct | " + link + " |"},
		},
		"the node's table: two interfaces": {
			[]string{"nft 'add element inet atoll compatible { \"a\" . \"b\" }'"}, []string{"object-surplus | nft atoll set compatible |  | a . b"},
		},
		"the node's walls": {
			[]string{"nft flush chain inet atoll closed"}, []string{"object-missing | nft atoll chain closed | rule 1 of 6:", more},
		},
		"the guard": {
			[]string{"nft flush table inet atoll-guard"}, []string{"object-missing | nft atoll-guard chain from-pods | rule 1 of 1:"},
		},
		"the node's address": {
			[]string{"ip address del 10.128.0.7/16 dev " + model.NodeInterface}, []string{
				"object-missing | addresses of " + model.NodeInterface, more,
			},
		},
		"the node forwards nothing": {
			[]string{"sysctl -qw net.ipv4.ip_forward=0"}, []string{"object-differs | setting ipv4 ip_forward | 1 | 0", more},
		},
		"a block's route gone": {
			[]string{"ip route del unreachable 100.64.0.0/24"}, []string{"object-missing | routes | unreachable 100.64.0.0/24 |"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			for _, command := range c.damage {
				run(t, "sh", "-c", command)
			}
			before := dumped(t)
			porthole, node := reviewed(t, k, spec, host)
			got := strings.Split(strings.TrimSpace(told(porthole)+told(node)), "\n")
			// What hangs on it may be told, too, where the last says so.
			if some := slices.Contains(c.wants, more); !some && len(got) != len(c.wants) || len(got) < len(c.wants) {
				t.Errorf("%d differences, want %d:\n%s", len(got), len(c.wants), strings.Join(got, "\n"))
			}
			for _, want := range c.wants {
				if want != more && !strings.Contains("\n"+strings.Join(got, "\n"), "\n"+want) {
					t.Errorf("missing %s in:\n%s", want, strings.Join(got, "\n"))
				}
			}
			// What was in a namespace that has gone goes some time later.
			if diff := cmp.Diff(before, dumped(t)); diff != "" && what != "the namespace gone" {
				t.Errorf("looking has changed (-before +after):\n%s", diff)
			}
			repair()
			well()
		})
	}
}

// TestReviewTellsOfChangesThatWereMade: a porthole and a node's side that have been changed step by step are what they would be
// if made from nothing.
func TestReviewTellsOfChangesThatWereMade(t *testing.T) {
	k, spec, host := keeper(t), testSpec("u1"), testHost()
	must(t, netdev.Guard())
	for name, change := range map[string]func(){
		"nothing":   func() {},
		"closed":    func() { spec.Egress, spec.Infra, spec.DNS = model.EgressNone, model.InfraNone, nil },
		"consumer":  func() { spec.Consumer, spec.Addressed = true, parsed("10.3.0.0/24", "fd00:3::/64") },
		"less pods": func() { spec.Pods = spec.Pods[:2] },
		"others":    func() { host.Compatible, host.Direct = nil, []string{"u2", "u7"} },
		"no node":   func() { host.Addresses, host.Gateways = nil, nil },
	} {
		before := spec
		must(t, k.EnsureHost(host))
		must(t, k.Ensure(spec))
		change()
		must(t, k.EnsureHost(host))
		must(t, k.Repair(spec))
		porthole, node := reviewed(t, k, spec, host)
		if text := told(porthole) + told(node); text != "" {
			t.Errorf("%s:\n%s", name, text)
		}
		// The control: what was before is not what is there now.
		if name == "closed" {
			if porthole, _ := reviewed(t, k, before, host); len(porthole) == 0 {
				t.Error("what was before is told to be there still")
			}
		}
	}
}

// dumped is all that a review could change, as nft and ip show it.
func dumped(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, command := range []string{
		"nft -a list ruleset", "ip -d link show", "ip address show", "ip route show table all", "ip -6 route show table all", "ip rule",
		"ls /var/run/netns",
	} {
		for _, where := range []string{"", "ip netns exec " + IDOf("u1").Name() + " "} {
			// Where the namespace has gone there is nothing.
			text, _ := exec.Command("sh", "-c", where+command).Output()
			out.Write(text)
		}
	}
	return out.String()
}
