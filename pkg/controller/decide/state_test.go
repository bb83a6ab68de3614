package decide_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

var defaults = decide.Defaults{Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14")}

// world is a state with its cluster and its graph.
type world struct {
	*cluster
	graph *graph.Graph
	state *decide.State
	// settings are the controller's, where others follow it; made counts Networks.
	settings decide.Defaults
	made     int
	// reached are the generations of Networks and Gateways, by UID, that the database had last.
	reached map[string]int64
}

func newWorld() *world { return newWorldOf(defaults) }

func newWorldOf(settings decide.Defaults) *world {
	w := &world{cluster: newCluster(), graph: graph.New()}
	w.state = decide.NewState(settings, w.graph, w.cluster)
	return w
}

// settle applies changes until none are left; what the database would commit is committed at once.
func (w *world) settle() {
	for range 20 {
		w.state.Apply(w.Take())
		w.commit()
		if w.quiet() {
			return
		}
	}
	panic("the controller does not come to rest")
}

// commit has the database take all that is wanted of it.
func (w *world) commit() {
	if wrong := w.state.Mistakes(); len(wrong) > 0 {
		panic("the order of stages does not allow it: " + strings.Join(wrong, "; "))
	}
	for {
		work, ok := w.graph.Next()
		if !ok {
			return
		}
		w.state.Committed(work.Owner)
	}
}

func (w *world) condition(network, kind string) model.Condition {
	for _, c := range w.status(network).Conditions {
		if c.Type == kind {
			return c
		}
	}
	return model.Condition{}
}

func (w *world) hasPort(p model.Pod) bool {
	_, ok := w.graph.Facts(nb.PodOwner(p.Key.Namespace, p.Key.Name))
	return ok
}

// asking is a pod that asks for something of its interface.
func asking(ns, name, network string, nic model.NICRequest) model.Pod {
	p := pod(ns, name, network)
	p.NIC = nic
	return p
}

func at(a string) netip.Addr { return netip.MustParseAddr(a) }

// TestBadInput: each bad pod gets its reason as an Event and on the Network, has no port, and stops nobody.
func TestBadInput(t *testing.T) {
	tests := []struct {
		name    string
		network model.Network
		before  []model.Pod
		bad     model.Pod
		reason  string
		says    string
	}{
		{
			name: "no such network", network: network("red", "a", "10.0.0.0/24"),
			bad: pod("team", "bad", "nowhere"), reason: model.ReasonNetworkNotFound,
			says: `"nowhere", which the pod's label atoll.dev/network names, does not exist`,
		},
		{
			name: "no default network", network: network("red", "a", "10.0.0.0/24"),
			bad: pod("team", "bad", ""), reason: model.ReasonNetworkNotFound, says: "names no Network",
		},
		{
			name: "address outside", network: network("red", "a", "10.0.0.0/24"),
			bad: asking("team", "bad", "red", model.NICRequest{IP: at("10.9.0.1")}), reason: model.ReasonAddressOutsideSubnet,
			says: "outside of every subnet",
		},
		{
			name: "address outside of the subnet it names", network: network("red", "a", "10.0.0.0/24", "b", "10.0.1.0/24"),
			bad: asking("team", "bad", "red", model.NICRequest{Subnet: "a", IP: at("10.0.1.5")}), reason: model.ReasonAddressOutsideSubnet,
			says: `outside of subnet "a"`,
		},
		{
			name: "the gateway's address", network: network("red", "a", "10.0.0.0/24"),
			bad: asking("team", "bad", "red", model.NICRequest{IP: at("10.0.0.1")}), reason: model.ReasonAddressReserved, says: "reserved",
		},
		{
			name: "address in use", network: network("red", "a", "10.0.0.0/24"),
			before: []model.Pod{asking("team", "first", "red", model.NICRequest{IP: at("10.0.0.9")})},
			bad:    asking("team", "bad", "red", model.NICRequest{IP: at("10.0.0.9")}), reason: model.ReasonAddressInUse,
			says: "in use by pod team/first",
		},
		{
			name: "no such subnet", network: network("red", "a", "10.0.0.0/24"),
			bad: asking("team", "bad", "red", model.NICRequest{Subnet: "z"}), reason: model.ReasonSubnetNotFound, says: `no subnet "z"`,
		},
		{
			name: "full", network: network("red", "a", "10.0.0.0/30"),
			before: []model.Pod{pod("team", "first", "red")},
			bad:    pod("team", "bad", "red"), reason: model.ReasonSubnetFull, says: "no address is free",
		},
		{
			name: "unreadable annotation", network: network("red", "a", "10.0.0.0/24"),
			bad: func() model.Pod {
				p := pod("team", "bad", "red")
				p.NICError = "annotation atoll.dev/nics: not JSON"
				return p
			}(),
			reason: model.ReasonInvalidNICs, says: "annotation atoll.dev/nics: not JSON",
		},
		{
			name: "namespace of another tenant", network: tenantNetwork("acme", "red", "a", "10.0.0.0/24"),
			bad: pod("team", "bad", "red"), reason: model.ReasonNetworkNotFound,
			says: `"red", which the pod's label atoll.dev/network names, does not exist or does not admit namespace "team"`,
		},
		{
			name: "namespace not selected", network: func() model.Network {
				n := network("red", "a", "10.0.0.0/24")
				n.Allowed = &match.Selector{Requirements: []match.Requirement{{Key: "x", Op: match.Exists}}}
				return n
			}(),
			bad: pod("team", "bad", "red"), reason: model.ReasonNetworkNotFound, says: `does not admit namespace "team"`,
		},
		{
			name: "network being deleted", network: func() model.Network { n := network("red", "a", "10.0.0.0/24"); n.Deleting = true; return n }(),
			bad: pod("team", "bad", "red"), reason: model.ReasonNetworkTerminating, says: "being deleted",
		},
		{
			name: "network that serves nothing", network: network("red", "a", "10.0.0.1/32"),
			bad: pod("team", "bad", "red"), reason: model.ReasonNetworkInvalid, says: "serves no subnet",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.setNamespace("team", nil)
			w.setNetwork(tt.network)
			w.setNetwork(network("other", "a", "10.0.0.0/24"))
			for _, p := range tt.before {
				w.setPod(p)
			}
			w.settle()
			w.setPod(tt.bad)
			bystander := pod("team", "bystander", "other")
			w.setPod(bystander)
			w.settle()
			events := w.eventsOf(tt.bad.Key.String())
			if len(events) != 1 || events[0].Reason != tt.reason || !strings.Contains(events[0].Message, tt.says) {
				t.Fatalf("events %+v, want one %s that says %q", events, tt.reason, tt.says)
			}
			if w.hasPort(tt.bad) || w.attachment(tt.bad.Key) != nil {
				t.Error("the bad pod has a port or an address")
			}
			c := w.condition(tt.bad.Network, model.ConditionPodsAttached)
			if stranger := tt.reason == model.ReasonNetworkNotFound; stranger && tt.bad.Network == "red" && !c.Status {
				t.Errorf("a stranger wrote into the Network's status: %+v", c)
			} else if !stranger && tt.bad.Network == "red" && (c.Status || c.Reason != tt.reason) {
				t.Errorf("condition of the Network: %+v", c)
			}
			for _, p := range append(tt.before, bystander) {
				if !w.hasPort(p) || w.attachment(p.Key) == nil {
					t.Errorf("pod %s has no port", p.Key)
				}
			}
		})
	}
}

func TestARefusedPodIsServedOnceItCanBe(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/30"))
	first, second := pod("team", "first", "red"), pod("team", "second", "red")
	w.setPod(first)
	w.settle()
	w.setPod(second)
	lost := pod("team", "lost", "later")
	w.setPod(lost)
	w.settle()
	if w.hasPort(second) || w.hasPort(lost) {
		t.Fatal("a pod has a port that it cannot have yet")
	}
	w.deletePod(first.Key)
	w.setNetwork(network("later", "a", "10.0.0.0/24"))
	w.settle()
	if !w.hasPort(second) || !w.hasPort(lost) {
		t.Error("a pod that waited was not served")
	}
	if c := w.condition("red", model.ConditionPodsAttached); !c.Status {
		t.Errorf("condition after all is well: %+v", c)
	}
}

func TestNetworksThatShareAVPCID(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	older, younger := network("zed", "a", "10.0.0.0/24"), network("abe", "a", "10.0.0.0/24")
	older.VPCID, younger.VPCID = "vpc-1", "vpc-1"
	younger.Created = older.Created.Add(1)
	w.setNetwork(younger)
	w.settle()
	w.setNetwork(older)
	w.settle()
	if c := w.condition("abe", model.ConditionReady); c.Status || c.Reason != model.ReasonVPCIDInUse {
		t.Errorf("the younger: %+v", c)
	}
	if c := w.condition("zed", model.ConditionReady); !c.Status {
		t.Errorf("the older: %+v", c)
	}
	younger.VPCID = "vpc-2"
	w.setNetwork(younger)
	w.settle()
	if c := w.condition("abe", model.ConditionReady); !c.Status {
		t.Errorf("the younger with a vpcID of its own: %+v", c)
	}
}

func TestADeletedNetworkWaitsForItsPodsAndNamesThem(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	n := network("red", "a", "10.0.0.0/24")
	w.setNetwork(n)
	p := pod("team", "last", "red")
	w.setPod(p)
	w.settle()
	n.Deleting, n.Finalized = true, true
	w.setNetwork(n)
	w.settle()
	if c := w.condition("red", model.ConditionInUse); !c.Status || !strings.Contains(c.Message, "team/last") {
		t.Errorf("condition: %+v", c)
	}
	if !w.hasPort(p) || w.networks["red"] == nil {
		t.Fatal("the pod lost its port or the Network went before its pod")
	}
	w.deletePod(p.Key)
	w.settle()
	if w.networks["red"] != nil || w.graph.Owners() != 0 {
		t.Errorf("the Network is still there, or its rows are (%d owners)", w.graph.Owners())
	}
}

func TestALabelOfTheNamespaceDoesNotMoveAPod(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", map[string]string{model.LabelNetwork: "red"})
	w.setNetwork(network("red", "a", "10.0.0.0/24"))
	w.setNetwork(network("blue", "a", "10.0.0.0/24"))
	p := pod("team", "p", "")
	w.setPod(p)
	w.settle()
	w.setNamespace("team", map[string]string{model.LabelNetwork: "blue"})
	w.settle()
	if a := w.attachment(p.Key); a == nil || a.Network != "red" {
		t.Errorf("the pod is now at %+v", a)
	}
	late := pod("team", "late", "")
	w.setPod(late)
	w.settle()
	if a := w.attachment(late.Key); a == nil || a.Network != "blue" {
		t.Errorf("a new pod is at %+v", a)
	}
}

func TestPermissionThatIsTakenBackTakesThePort(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", map[string]string{model.LabelTenant: "acme"})
	n := tenantNetwork("acme", "red", "a", "10.0.0.0/24")
	w.setNetwork(n)
	p := pod("team", "p", "red")
	w.setPod(p)
	w.settle()
	if !w.hasPort(p) {
		t.Fatal("the tenant's own pod has no port")
	}
	w.setNamespace("team", map[string]string{model.LabelTenant: "other"})
	w.settle()
	if w.hasPort(p) {
		t.Error("the pod keeps its port in a Network that its namespace may not attach to")
	}
}

func TestARebornPodOfTheSameNameIsAnotherPod(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/24"))
	first := pod("team", "web-0", "red")
	w.setPod(first)
	w.settle()
	before := w.attachment(first.Key)
	second := pod("team", "web-0", "red")
	w.setPod(second)
	w.settle()
	after := w.attachment(second.Key)
	if after == nil || after.PodUID != second.UID || after.Addresses[0] == before.Addresses[0] {
		t.Errorf("before %+v, after %+v: want another address, for the new UID", before, after)
	}
	if got := w.status("red").Pods; got != 1 {
		t.Errorf("the Network counts %d pods, want 1", got)
	}
}

func TestARevokedPodHoldsItsAddressAndItsNetwork(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", map[string]string{model.LabelTenant: "acme"})
	n := tenantNetwork("acme", "red", "a", "10.0.0.0/24")
	w.setNetwork(n)
	p := pod("team", "p", "red")
	w.setPod(p)
	w.settle()
	w.setNamespace("team", map[string]string{model.LabelTenant: "other"})
	w.settle()
	if s := w.status("red"); s.Pods != 1 || s.Subnets[0].Used != 1 {
		t.Errorf("pods %d, used %d; want 1 and 1", s.Pods, s.Subnets[0].Used)
	}
	n.Deleting, n.Finalized = true, true
	w.setNetwork(n)
	w.settle()
	if c := w.condition("red", model.ConditionInUse); w.networks["red"] == nil || !strings.Contains(c.Message, "team/p") {
		t.Errorf("the Network went before a pod that has its address, or does not name it: %+v", c)
	}
	w.deletePod(p.Key)
	w.settle()
	if w.networks["red"] != nil {
		t.Error("the Network stays after its last pod")
	}
}

func TestANewNetworkOfAnOldNameDoesNotTakeItsPodsOver(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/24"))
	p := pod("team", "p", "red")
	w.setPod(p)
	w.settle()
	// Somebody removed the finalizer by force.
	w.change(func() { delete(w.networks, "red"); w.changes.Networks["red"] = nil })
	w.settle()
	next := network("red", "a", "10.0.0.0/24")
	next.UID = "uid-of-another"
	w.setNetwork(next)
	w.settle()
	events := w.eventsOf(p.Key.String())
	if w.hasPort(p) || len(events) == 0 || events[len(events)-1].Reason != model.ReasonNetworkReplaced {
		t.Errorf("port %v, events %+v", w.hasPort(p), events)
	}
}

func TestStrangersCostANetworkNothing(t *testing.T) {
	w := newWorld()
	w.setNamespace("evil", nil)
	w.setNamespace("team", map[string]string{model.LabelTenant: "acme"})
	n := tenantNetwork("acme", "red", "a", "10.0.0.0/29")
	w.setNetwork(n)
	for i := range 100 {
		w.setPod(pod("evil", fmt.Sprintf("p-%d", i), "red"))
	}
	own := pod("team", "own", "red")
	w.setPod(own)
	w.settle()
	if c := w.condition("red", model.ConditionPodsAttached); !c.Status || !w.hasPort(own) {
		t.Errorf("condition %+v, own pod has port %v", c, w.hasPort(own))
	}
	// Once they are admitted they are strangers no more.
	w.setNamespace("evil", map[string]string{model.LabelTenant: "acme"})
	w.settle()
	if c := w.condition("red", model.ConditionPodsAttached); c.Status || c.Reason != model.ReasonSubnetFull || w.status("red").Pods != 5 {
		t.Errorf("after they were admitted: %+v, %d pods", c, w.status("red").Pods)
	}
}

func TestAPodThatTheDatabaseRefusesIsInTheStatus(t *testing.T) {
	w := newWorld()
	w.setNamespace("team", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/24"))
	p := pod("team", "p", "red")
	w.setPod(p)
	w.settle()
	owner := nb.PodOwner("team", "p")
	w.state.Refused(owner, "no room")
	if c := w.condition("red", model.ConditionPodsAttached); c.Status || c.Reason != model.ReasonDatabaseRefused ||
		!strings.Contains(c.Message, "no room") {
		t.Errorf("condition %+v", c)
	}
	w.state.Committed(owner)
	if c := w.condition("red", model.ConditionPodsAttached); !c.Status {
		t.Errorf("condition once it is accepted: %+v", c)
	}
}

// TestAPodThatNothingCanBeWrittenOnHoldsNothing: it has no port, no address and no face, so that others get them, until there is
// room on it.
func TestAPodThatNothingCanBeWrittenOnHoldsNothing(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	only := model.NICRequest{IP: at("10.0.0.9")}
	full := asking("a", "full", "red", only)
	w.setPod(full)
	w.settle()
	if !w.hasPort(full) || w.attachment(full.Key) == nil || len(w.attachment(full.Key).Faces) == 0 {
		t.Fatal("a pod as any other has no port or no face")
	}
	face := w.attachment(full.Key).Faces[0]
	// It was faster than the controller: nothing is written on it.
	full.Unwritable = "too long"
	w.setPod(full)
	w.settle()
	events := w.eventsOf(full.Key.String())
	if w.hasPort(full) || len(events) == 0 ||
		events[len(events)-1] != (model.Problem{Reason: model.ReasonAnnotationRefused, Message: "too long"}) {
		t.Errorf("port %v, events %+v", w.hasPort(full), events)
	}
	if c := w.condition("red", model.ConditionPodsAttached); c.Status || c.Reason != model.ReasonAnnotationRefused ||
		w.status("red").Pods != 0 {
		t.Errorf("%d pods, %+v", w.status("red").Pods, c)
	}
	other := asking("a", "other", "red", only)
	w.setPod(other)
	w.settle()
	if !w.hasPort(other) {
		t.Errorf("another pod does not get the address: %+v", w.eventsOf(other.Key.String()))
	}
	w.deletePod(other.Key)
	full.Unwritable = ""
	w.setPod(full)
	w.settle()
	if a := w.attachment(full.Key); !w.hasPort(full) || a == nil || len(a.Faces) == 0 {
		t.Errorf("with room on it: port %v, %+v; it had %s", w.hasPort(full), a, face)
	}
}
