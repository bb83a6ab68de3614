package decide_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// addressedWorld is peered world, in which blue has addresses of its own and dials red's pods by theirs.
func addressedWorld(t *testing.T) (*world, model.Pod) {
	w, p := peeredWorld(t)
	w.resubnet("blue", "10.9.0.0/24")
	w.says("red", model.CompatiblePeer{Network: "blue", Addresses: true})
	return w, p
}

// resubnet gives a Network one other subnet, or several.
func (w *world) resubnet(name string, cidrs ...string) {
	n := *w.networks[name]
	n.Subnets = nil
	for _, cidr := range cidrs {
		n.Subnets = append(n.Subnets, model.Subnet{Name: cidr, CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}})
	}
	n.Generation++
	w.setNetwork(n)
	w.settle()
}

// dials are the pairs of own addresses and faces that a Network's switches have of others, "own > face", sorted.
func (w *world) dials(network string) string {
	var out []string
	for _, r := range w.graph.Refs() {
		sw, ok := w.row(r).(*nb.LogicalSwitch)
		if !ok || sw.ExternalIDs[nb.KeyNetwork] != network {
			continue
		}
		for _, group := range w.graph.Elements(nb.Set{Row: r, Column: nb.ColumnLoadBalancerGroups}) {
			for _, lb := range w.graph.Elements(nb.Set{Row: nb.Ref{Table: nb.TableLoadBalancerGroup, UUID: group}, Column: nb.ColumnLoadBalancers}) {
				ref := nb.Ref{Table: nb.TableLoadBalancer, UUID: lb}
				row, ok := w.row(ref).(*nb.LoadBalancer)
				if !ok {
					out = append(out, "no load balancer "+lb)
					continue
				}
				if !strings.Contains(row.Name, ":addresses:") {
					continue
				}
				for _, pair := range w.graph.Elements(nb.Set{Row: ref, Column: nb.ColumnVips}) {
					own, face := nb.SplitPair(pair)
					out = append(out, own+" > "+face)
				}
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

func (w *world) row(r nb.Ref) nb.Row {
	row, _ := w.graph.Row(r)
	return row
}

// A pod is dialled by its own address where that is offered and wanted, and means nothing else there; for as long as that is so.
func TestPodsAreDialledByTheirOwnAddresses(t *testing.T) {
	w, p := addressedWorld(t)
	own, face := w.attachment(p.Key).Addresses[0].Addr(), w.attachment(p.Key).Faces[0]
	pair := own.String() + " > " + face.String()
	refusals := map[string]bool{}
	for _, what := range []string{
		"not offered", "blue has a subnet there", "blue lists it no more, and has a pod there", "another tenant's that does not want it",
	} {
		refusals[what] = true
	}
	expect := func(what, want string) {
		t.Helper()
		w.settle()
		if got := w.dials("blue"); got != want {
			t.Errorf("%s: blue has %q, want %q", what, got, want)
		}
		if got := w.dials("red"); got != "" {
			t.Errorf("%s: red has %q", what, got)
		}
		known := false
		for _, c := range w.status("blue").Compatibility {
			known = known || c.Network == "red" && c.Uses && c.Addresses
		}
		if dialled := !refusals[what]; known != dialled {
			t.Errorf("%s: blue's status says %t of addresses, want %t", what, known, dialled)
		}
	}
	expect("at first", pair)
	w.says("red", model.CompatiblePeer{Network: "blue"})
	expect("not offered", "")
	w.says("red", model.CompatiblePeer{Network: "blue", Addresses: true})
	expect("offered again", pair)

	machine := node("n1", 1)
	machine.Assigned, machine.UID = w.nodes["n1"].Assigned, w.nodes["n1"].UID
	machine.Addresses = []netip.Addr{own}
	w.setNode(machine)
	expect("a node has its address", "")
	machine.Addresses = nil
	w.setNode(machine)
	expect("it has not any more", pair)

	w.resubnet("blue", "10.9.0.0/24", "10.0.0.0/25")
	expect("blue has a subnet there", "")
	inside := asking("b", "inside", "", model.NICRequest{Subnet: "10.0.0.0/25"})
	w.setPod(inside)
	w.settle()
	w.resubnet("blue", "10.9.0.0/24")
	expect("blue lists it no more, and has a pod there", "")
	w.deletePod(inside.Key)
	expect("that has gone", pair)

	listed := *w.networks["red"]
	w.resubnet("red", "10.7.0.0/24")
	expect("red lists the pod's subnet no more", "")
	again := *w.networks["red"]
	again.Subnets = listed.Subnets
	again.Generation++
	w.setNetwork(again)
	expect("it lists it again", pair)

	more := pod("r", "more", "")
	w.setPod(more)
	w.settle()
	second := w.attachment(more.Key)
	expect("one more pod", pair+", "+second.Addresses[0].Addr().String()+" > "+second.Faces[0].String())
	w.deletePod(more.Key)
	expect("it has gone", pair)

	blue := *w.networks["blue"]
	blue.Tenant, blue.Allowed = "another", w.networks["red"].Allowed
	blue.Uses = []string{"red"}
	blue.Generation++
	w.setNetwork(blue)
	expect("another tenant's that does not want it", "")
	blue.Uses, blue.UsesAddressesOf = nil, []string{"red"}
	blue.Generation++
	w.setNetwork(blue)
	expect("that wants it", pair)
	w.deletePod(p.Key)
	expect("without the pod", "")
}

// An address of a load balancer that means another Network's pod is none of a Service's.
func TestPublishedAddressesAreNotOtherNetworksPods(t *testing.T) {
	w, p := addressedWorld(t)
	own := w.attachment(p.Key).Addresses[0].Addr()
	s := service("b", "public", "10.96.0.77")
	s.Published = []netip.Addr{own, netip.MustParseAddr("203.0.113.5")}
	w.setService(s)
	published := func() string {
		w.settle()
		var out []string
		for vip := range w.lbs("b", "public")["blue"] {
			if at := netip.MustParseAddrPort(vip).Addr(); at.String() != "10.96.0.77" {
				out = append(out, at.String())
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got := published(); got != "203.0.113.5" {
		t.Errorf("the Service has %q while red's addresses are dialled", got)
	}
	w.says("red", model.CompatiblePeer{Network: "blue", Mode: model.Routed})
	if got := published(); got != "203.0.113.5" {
		t.Errorf("the Service has %q while red is joined", got)
	}
	w.says("red", model.CompatiblePeer{Network: "blue"})
	if got := published(); got != own.String()+" 203.0.113.5" {
		t.Errorf("the Service has %q while red's addresses mean nothing", got)
	}
}

// Nor is one of the service ranges in which a Network's pods dial another's Services, whichever ranges that one has now.
func TestPublishedAddressesAreNotOtherNetworksServices(t *testing.T) {
	w, _ := peeredWorld(t)
	s := service("b", "public", "10.96.0.77")
	s.Published = []netip.Addr{netip.MustParseAddr("10.8.0.5"), netip.MustParseAddr("10.9.0.5")}
	w.setService(s)
	for _, test := range []struct{ services, want string }{
		{"10.9.0.0/24", "10.8.0.5:80 10.96.0.77:80"}, {"10.8.0.0/24", "10.9.0.5:80 10.96.0.77:80"}, {"10.9.0.0/24", "10.8.0.5:80 10.96.0.77:80"},
	} {
		red := *w.networks["red"]
		red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(test.services)}
		red.Generation++
		w.setNetwork(red)
		w.settle()
		if got := strings.Join(slices.Sorted(maps.Keys(w.lbs("b", "public")["blue"])), " "); got != test.want {
			t.Errorf("the Service has %q while red's are in %s, want %q", got, test.services, test.want)
		}
	}
}
