//go:build integration

package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// checked is what the node's agent finds, as lines.
func (a *Agent) checked(t *testing.T, repair bool) (differences, repaired []string, problem string) {
	t.Helper()
	// What somebody else has written into the database is known a moment later.
	must(t, a.ovs.Settled(t.Context()))
	found, err := a.inquiry().Check(t.Context(), repair)
	must(t, err)
	if found.More > 0 {
		t.Errorf("%d are left out", found.More)
	}
	lines := func(all []api.NodeDifference) (out []string) {
		for _, d := range all {
			out = append(out, strings.Join([]string{d.Owner, string(d.Kind), d.Object, d.Want, d.Have}, " | "))
		}
		return out
	}
	return lines(found.Differences), lines(found.Repaired), found.Problem
}

// untouched is what there is on the node, as its tools show it: what a check must leave as it is.
func (n *node) untouched(network string) string {
	n.tb.Helper()
	// ovn-controller says by itself, some time later, which ports it has set up.
	out := regexp.MustCompile(`,? ?ovn-installed(-ts)?=""[^"]*""`).ReplaceAllString(n.vsctl("--columns=name,external_ids", "--format=csv",
		"list", "Interface")+n.vsctl("--columns=name,external_ids", "--format=csv", "list", "Port")+
		n.vsctl("--columns=target,controller_rate_limit", "--format=csv", "list", "Controller"), "")
	for _, command := range []string{
		"nft -s -a list ruleset", "ip -o link show", "ip address show", "ip route show table all", "ip -6 route show table all",
	} {
		for _, where := range []string{"", "ip netns exec " + porthole.IDOf(uidOf(network)).Name() + " "} {
			text, err := exec.Command("sh", "-c", where+command).Output()
			must(n.tb, err)
			for line := range strings.Lines(string(text)) {
				// The kernel itself gives links addresses for the link, some time later.
				if !strings.Contains(line, "tentative") && !strings.Contains(line, "scope link") && !strings.Contains(line, "dev wan") {
					out += line
				}
			}
		}
	}
	return out
}

// TestCheckFindsWhatASweepMends: on a node where all is well nothing differs; each kind of damage is named with its owner,
// looking changes nothing, and a repair mends it.
func TestCheckFindsWhatASweepMends(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	close(a.swept)
	one, two := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "red", "two", 6, 6)
	serveName(t, one.inside, ":80", "one")
	well := func() {
		t.Helper()
		if found, _, _ := a.checked(t, false); len(found) > 0 {
			t.Fatalf("of a node where all is well is told:\n%s", strings.Join(found, "\n"))
		}
	}
	well()
	hole := porthole.IDOf(uidOf("red"))
	sh := func(command string) func() {
		return func() {
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	vsctl := func(args ...string) func() { return func() { n.vsctl(args...) } }
	in := "ip netns exec " + hole.Name() + " "
	for _, c := range []struct {
		name   string
		damage func()
		want   string
	}{
		{
			"a port without its iface-id", vsctl("remove", "Interface", one.hostName(), "external_ids", "iface-id"),
			"Pod/red/one | interface-differs | Interface " + one.hostName() + " | iface-id=red/one | ",
		},
		{
			"a port with another's iface-id", vsctl("set", "Interface", one.hostName(), "external_ids:iface-id=red/two"),
			"Pod/red/one | interface-differs | Interface " + one.hostName() + " | iface-id=red/one | iface-id=red/two",
		},
		{
			"a port of another pod's UID", vsctl("set", "Interface", two.hostName(), "external_ids:iface-id-ver=x"),
			"Pod/red/two | interface-differs | Interface " + two.hostName(),
		},
		{
			"an interface that says nothing", vsctl("clear", "Interface", one.hostName(), "external_ids"),
			"Pod/red/one | interface-missing | Interface " + one.hostName() + " | iface-id=red/one",
		},
		{"a link without its port", vsctl("del-port", "br-int", one.hostName()), "Pod/red/one | interface-missing | Interface " + one.hostName()},
		{"a port without link and pod", vsctl("--no-wait", "add-port", "br-int", "ghost", "--", "set", "Interface", "ghost",
			"external_ids:iface-id=red/ghost", "external_ids:atoll.dev/sandbox=ghost", "external_ids:atoll.dev/pod=red/ghost",
			"--", "set", "Port", "ghost", "external_ids:atoll.dev/sandbox=ghost"), "Pod/red/ghost | interface-surplus | Interface ghost"},
		{"a link of a pod that has gone", func() {
			gone := newPod(t, a, "gone", 9)
			w, err := a.wanted(t.Context(), gone.request, a.mustGet(t, gone), mustNIC(t, gone))
			must(t, err)
			must(t, netdev.Create(w.link))
			a.pods.remove(gone.request.Pod.Key(), gone.request.Pod.UID)
		}, "Node/node1 | object-surplus | link atoll-"},
		{"the porthole's port gone", vsctl("del-port", "br-int", hole.Name()), "Network/red | interface-missing | Interface " + hole.Name()},
		{
			"the porthole's port of another Network", vsctl("set", "Interface", hole.Name(), "external_ids:iface-id=blue:porthole"),
			"Network/red | interface-differs | Interface " + hole.Name(),
		},
		{
			"the node's port gone", vsctl("del-port", "br-int", porthole.NodePort),
			"Node/node1 | interface-missing | Interface " + porthole.NodePort,
		},
		{
			"an element of the porthole's rules gone", sh(in + "nft delete element inet atoll pods4 {10.0.0.5}"),
			"Network/red | object-missing | nft atoll set pods4 in " + hole.Name() + " | 10.0.0.5 | ",
		},
		{
			"a rule of the porthole's gone", sh(in + "nft flush chain inet atoll entrance"),
			"Network/red | object-missing | nft atoll chain entrance in " + hole.Name(),
		},
		{"a rule of the node's gone", sh("nft flush chain inet atoll closed"), "Node/node1 | object-missing | nft atoll chain closed"},
		{"the guard gone", sh("nft delete table inet atoll-guard"), "Node/node1 | object-missing | nft table atoll-guard"},
		{"the way to a face gone", sh("ip route del 100.64.1.5"), "Network/red | object-missing | routes | 100.64.1.5/32 via"},
		{"the way to the node gone", sh(in + "ip route del default table 167"), "Network/red | object-missing | routes in " + hole.Name()},
		{
			"an address of the porthole gone", sh(in + "ip address del 10.96.0.10/32 dev lo"),
			"Network/red | object-missing | addresses of lo in " + hole.Name(),
		},
		{"a link of the porthole gone", sh("ip link del " + hole.HostLink()), "Network/red | object-missing | link " + hole.HostLink()},
		{"the porthole's namespace gone", sh("umount " + hole.NetnsPath()), "Network/red | object-missing | network namespace " + hole.Name()},
		{"a porthole that nobody needs", func() {
			spec, err := a.world.Porthole(uidOf("blue"))
			must(t, err)
			spec.MTU, spec.Offload, err = a.fabric(t.Context())
			must(t, err)
			must(t, a.keeper.Ensure(spec))
		}, "Node/node1 | object-surplus | porthole " + porthole.IDOf(uidOf("blue")).Name()},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.damage()
			before := ""
			if !strings.Contains(c.name, "namespace gone") {
				before = n.untouched("red")
			}
			found, _, _ := a.checked(t, false)
			if !slices.ContainsFunc(found, func(line string) bool { return strings.HasPrefix(line, c.want) }) {
				t.Errorf("%s is not told; told is:\n%s", c.want, strings.Join(found, "\n"))
			}
			if before != "" {
				if diff := cmp.Diff(before, n.untouched("red")); diff != "" {
					t.Errorf("looking has changed (-before +after):\n%s", diff)
				}
			}
			left, repaired, problem := a.checked(t, true)
			if len(left) > 0 || problem != "" || !slices.Equal(repaired, found) {
				t.Errorf("after the repair is left: %q, %s\nrepaired: %q\nfound before: %q", left, problem, repaired, found)
			}
			well()
		})
	}
	// What was mended works.
	for _, p := range []*testPod{one, two} {
		must(t, a.ovs.Installed(t.Context(), p.hostName()))
		must(t, a.Check(t.Context(), p.request))
	}
	wantAnswer(t, here, "100.64.1.5:80", "one sees "+ownNode)
}

// TestCheckOfWhatIsInFlight: what a request is doing is no difference, and before the first sweep nobody tells.
func TestCheckOfWhatIsInFlight(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	if _, err := a.inquiry().Check(t.Context(), false); err == nil {
		t.Error("an agent that has not swept tells")
	} else if r, ok := errors.AsType[*nodeapi.RefusedError](err); !ok || !r.Temporary {
		t.Errorf("an agent that has not swept: %v", err)
	}
	close(a.swept)
	one := n.addGuest(a, "red", "one", 5, 5)
	n.vsctl("del-port", "br-int", one.hostName())
	release, err := a.locks.Acquire(t.Context(), one.request.ContainerID)
	must(t, err)
	if found, _, _ := a.checked(t, false); len(found) > 0 {
		t.Errorf("while a request is in flight is told %q", found)
	}
	release()
	// The control: without it, the same is told.
	if found, _, _ := a.checked(t, false); len(found) != 1 {
		t.Errorf("with nothing in flight is told %q", found)
	}
}

// TestCheckOfManyPortholes: a node with many Networks is looked through in a moment.
func TestCheckOfManyPortholes(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	close(a.swept)
	const many = 20
	for i := range many {
		name := fmt.Sprintf("many%d", i)
		a.world.SetNetwork(vpc(name))
		n.addNetwork(name, testSubnet, testSubnet6)
		n.addGuest(a, name, "one", 5, 10+i)
	}
	found, err := a.inquiry().Check(t.Context(), false)
	must(t, err)
	if found.Portholes != many || found.Interfaces != many || len(found.Differences) > 0 {
		t.Errorf("%d portholes, %d interfaces: %+v", found.Portholes, found.Interfaces, found.Differences)
	}
}
