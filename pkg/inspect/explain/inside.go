package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// walk follows what a pod sends to an address, to each endpoint that it may be led to.
func (e *explainer) walk(from *party, p packet) []Way {
	first := Way{Dialled: p.String(), There: []Hop{e.begin(from)}}
	if !e.inSwitch(&first, from) {
		return []Way{first}
	}
	dialled := p
	if instead := e.table.Instead(from.port, p.dst); instead.IsValid() {
		p.dst = instead
		first.ok(LayerBalancer, from.node, from.network, "%s becomes %s, %s", dialled.dst, instead, e.meaning(dialled.dst))
	}
	if p.protocol != trace.ICMP {
		lb, endpoints, known := e.table.Balancer(from.port, netip.AddrPortFrom(dialled.dst, p.port), p.protocol)
		switch {
		case known && len(endpoints) == 0:
			e.meetBalancer(lb)
			first.stop(e.noEndpoints(from, dialled, lb))
			return []Way{first}
		case known:
			e.meetBalancer(lb)
			return e.balanced(first, from, dialled, lb, endpoints)
		}
	}
	if hop, ends := e.unserved(from, dialled); ends {
		first.stop(hop)
		return []Way{first}
	}
	if slices.Contains(from.sources(), dialled.dst) {
		first.ok(LayerPod, from.node, from.network, "it is the pod's own address: the packet does not leave the pod")
		first.arrive(from.String(), dialled.dst.String())
		first.end = from.pod
		return []Way{first}
	}
	return e.onwards(first, from, dialled, p)
}

// onwards are the way onward, and the others that a node may lead it.
func (e *explainer) onwards(way Way, from *party, dialled, p packet) []Way {
	e.others = nil
	e.onward(&way, from, dialled, p)
	return append([]Way{way}, e.others...)
}

// onward follows what a pod sends after load balancing.
func (e *explainer) onward(way *Way, from *party, dialled, p packet) {
	to := e.local(from, p.dst)
	balanced, first := p.trace(), dialled.trace()
	balanced.Loopback = to != nil && to.pod == from.pod
	first.Loopback = balanced.Loopback
	d, err := e.table.Send(from.port, first, balanced)
	e.other, e.judging = to, p
	if !e.judged(way, from, model.PolicyEgress, d, err) {
		return
	}
	switch {
	case to != nil:
		e.cross(way, from, to, p, balanced.Loopback, dialled)
	case e.table.Leads(from.network, p.dst) != "":
		n := e.table.Leads(from.network, p.dst)
		way.stop(Hop{
			Layer: LayerPeering, Node: from.node, Network: n,
			What: fmt.Sprintf("%s lies in Network %s, whose router is joined, and no pod has it", p.dst, n),
			Next: "is the pod still there, under that address? kubectl get pods -A -o wide",
		})
	case e.inSubnet(from.network, p.dst):
		way.stop(Hop{
			Layer: LayerSwitch, Node: from.node, Network: from.network,
			What: fmt.Sprintf("%s lies in a subnet of Network %s, and no pod has it: nobody answers", p.dst, from.network),
			Next: "is the pod still there, under that address? kubectl get pods -A -o jsonpath with the annotation atoll.dev/addresses",
		})
	case e.flat(from.network):
		e.leaveFlat(way, from, p)
	default:
		e.leave(way, from, p)
	}
}

// inSubnet reports whether an address is looked for in a Network's own subnets. What the cluster's DNS and API have there leads
// to the porthole.
func (e *explainer) inSubnet(network string, a netip.Addr) bool {
	n := e.objects.Networks[network]
	if n == nil || slices.Contains(e.resolvers(), a) {
		return false
	}
	if s := e.objects.Services[snapshot.APIKey()]; s != nil && slices.Contains(s.ClusterIPs, a) {
		return false
	}
	return slices.ContainsFunc(e.subnetsOf(n), func(r netip.Prefix) bool { return r.Contains(a) })
}

// local is the pod that an address means without leaving OVN: of the Network, of one that is joined, or of another flat one.
func (e *explainer) local(from *party, a netip.Addr) *party {
	networks := []string{from.network}
	if other := e.table.Leads(from.network, a); other != "" {
		networks = append(networks, other)
	}
	if e.flat(from.network) {
		for name := range e.objects.Networks {
			if e.flat(name) && name != from.network {
				networks = append(networks, name)
			}
		}
	}
	for _, n := range networks {
		if port := e.table.At(n, a); port != nil {
			if key, is := policyrows.PodOf(port.ExternalIDs[nb.KeyOwner]); is {
				p, err := e.party(key)
				if err == nil {
					return p
				}
			}
		}
	}
	return nil
}

// judged adds what ACLs decide at a pod; false when the way ends.
func (e *explainer) judged(way *Way, at *party, direction model.Direction, d trace.Decision, err error) bool {
	where := Hop{Layer: LayerPolicy, Node: at.node, Network: at.network}
	verb := "may send it"
	if direction == model.PolicyIngress {
		verb = "may receive it"
	}
	if err != nil {
		where.What, where.Next = fmt.Sprintf("what decides whether %s %s is not understood: %v", at, verb,
			err), "atoll nbctl list ACL says whose it is"
		way.stop(where)
		return false
	}
	t := policytrace.Tracer{Rows: e.table, Cluster: func() (model.Changes, error) { return e.objects, nil }}
	s := t.Step(at.port, direction, d)
	e.meetPolicies(s)
	if d.Allowed {
		way.ok(LayerPolicy, at.node, at.network, "%s %s: %s", at, verb, s.Reason)
		return true
	}
	where.What = fmt.Sprintf("%s: %s", strings.Replace(fmt.Sprintf("%s %s", at, verb), "may ", "may not ", 1), s.Reason)
	if len(s.Isolating) > 0 {
		where.What += ", and it is isolated by " + strings.Join(s.Isolating, ", ")
	}
	where.Next = e.nextOf(s, at, direction)
	if lacks := e.lacking(s.Isolating, direction); lacks != "" {
		where.Next = lacks + "; else " + where.Next
	}
	if s.Policy == nb.Peers {
		where.Layer = LayerPeering
	}
	way.stop(where)
	return false
}

func (e *explainer) meetPolicies(s policytrace.Step) {
	for _, text := range append([]string{s.Policy}, s.Isolating...) {
		if o, known := nb.ParseOwner(text); known {
			e.met.owners = append(e.met.owners, o)
		}
	}
}

// nextOf is what to do about what a step drops.
func (e *explainer) nextOf(s policytrace.Step, at *party, direction model.Direction) string {
	field := "spec.egress"
	if direction == model.PolicyIngress {
		field = "spec.ingress"
	}
	switch {
	case len(s.Isolating) > 0:
		return fmt.Sprintf("add a rule to %s of one of them that allows it: %s", field, policyrows.DescribeHint(s.Isolating[0]))
	case s.Policy == nb.Isolation || s.Rule == nb.RuleIsolation:
		return "atoll check: the API server has no policy that isolates the pod, and OVN has"
	case s.Policy == nb.Peers:
		return e.peersHint(at.network)
	case s.Policy == nb.Faces:
		return "set spec.infraIngress of the Network whose face is dialled to All, or label the sender's namespace atoll.dev/infrastructure=true"
	case s.Policy == nb.Guard:
		return "a pod cannot be a router or a DHCP server of its subnet"
	case s.Policy == nb.Unserved:
		return "no Service or Gateway has that address and port for pods of Network " + at.network
	case s.Policy == nb.Apart:
		return "pods of two flat Networks do not reach each other: put both into one"
	case s.Policy != "":
		return fmt.Sprintf("change %s, whose rule %s denies it: %s", field, s.Rule, policyrows.DescribeHint(s.Policy))
	}
	return "atoll nbctl list ACL says whose it is"
}

func (e *explainer) peersHint(network string) string {
	return fmt.Sprintf("kubectl get network %s -o jsonpath='{.status.compatibility}' says of each Network why it is not reached", network)
}

// cross takes a packet from its sender to a pod without leaving OVN.
func (e *explainer) cross(way *Way, from, to *party, p packet, loopback bool, dialled packet) {
	e.meet(to)
	if loopback {
		// A packet that its own Service leads back comes from the Service's address. (ovn-nb(5), Load_Balancer.)
		p.src = dialled.dst
		way.ok(LayerBalancer, from.node, from.network, "it is led back to %s itself, from the address that was dialled", from)
	} else if !e.switched(way, from, to) || !e.inSwitch(way, to) {
		return
	}
	e.receive(way, from, to, p, loopback)
}

// switched adds the switch or the router that leads to a pod; false when its rows are not there.
func (e *explainer) switched(way *Way, from, to *party) bool {
	a, b := e.table.SwitchOf(from.port), e.table.SwitchOf(to.port)
	switch {
	case a == nil || b == nil:
	case a == b:
		way.ok(LayerSwitch, from.node, from.network, "switch %s leads to it", a.Name)
	case from.network == to.network || e.flat(from.network):
		if !e.hasRouter(way, from, e.routerOf(from.network), a.Name+":gateway", a.Name+":router") ||
			!e.hasRouter(way, to, e.routerOf(to.network), b.Name+":gateway", b.Name+":router") {
			return false
		}
		way.ok(LayerRouter, from.node, from.network, "router %s leads from switch %s to %s", e.routerOf(from.network), a.Name, b.Name)
	default:
		if !e.hasRouter(way, from, from.network, model.JointPortName(from.network, to.network), "") ||
			!e.hasRouter(way, to, to.network, model.JointPortName(to.network, from.network), "") {
			return false
		}
		way.ok(LayerPeering, from.node, from.network, "mode Routed: router %s leads to router %s", from.network, to.network)
	}
	return e.tunnelled(way, from, to)
}

func (e *explainer) tunnelled(way *Way, from, to *party) bool {
	if from.node != to.node && to.node != "" {
		way.ok(LayerNode, to.node, to.network, "a tunnel leads from %s to %s", from.node, to.node)
	}
	return true
}

// routerOf is the router of a Network: that of the default one for a flat one.
func (e *explainer) routerOf(network string) string {
	if e.flat(network) {
		return e.settings.Network
	}
	return network
}

// hasRouter looks whether a router has a port, and a switch port leads there; without, the way ends.
func (e *explainer) hasRouter(way *Way, at *party, router, port, peer string) bool {
	var missing string
	r, there := e.names[nb.TableLogicalRouter][router].(*nb.LogicalRouter)
	p, has := e.names[nb.TableLogicalRouterPort][port].(*nb.LogicalRouterPort)
	_, leads := e.names[nb.TableLogicalSwitchPort][peer]
	switch {
	case !there:
		missing = "Logical_Router " + router
	case !has:
		missing = "Logical_Router_Port " + port
	case !slices.Contains(r.Ports, p.UUID):
		missing = "Logical_Router_Port " + port + " in the router"
	case peer != "" && !leads:
		missing = "Logical_Switch_Port " + peer
	default:
		return true
	}
	way.stop(Hop{
		Layer: LayerRouter, Node: at.node, Network: at.network, What: "there is no " + missing,
		Next: "atoll check names each row that is missing; a controller that leads puts it back (kubectl -n " +
			"atoll-system get lease atoll-controller)",
	})
	return false
}

// inSwitch looks whether a pod's port is in a switch, and up where that is known; else the way ends.
func (e *explainer) inSwitch(way *Way, p *party) bool {
	h := Hop{
		Layer: LayerPod, Node: p.node, Network: p.network,
		Next: fmt.Sprintf("kubectl describe pod -n %s %s has Events of what is behind on its node; docs/troubleshooting/README.md#ovn-by-hand",
			p.pod.Namespace, p.pod.Name),
	}
	if e.table.SwitchOf(p.port) == nil {
		h.What, h.Next = fmt.Sprintf("the port of %s is in no switch", p), "atoll check: a controller that leads puts it back"
		way.stop(h)
		return false
	}
	if !e.awake(way, p) {
		return false
	}
	if e.bindings == nil {
		return true
	}
	b, there := e.bindings[p.port.Name]
	switch {
	case !there:
		h.What = fmt.Sprintf("the southbound database has no port of %s: ovn-northd is behind", p)
	case b.Chassis == "":
		h.What = fmt.Sprintf("no node has bound the port of %s: ovn-controller or the agent of node %s is away, or the pod has not started%s",
			p, p.node, e.because(p))
	case !snapshot.BoundOn(b, p.node, e.objects.Nodes):
		h.What = fmt.Sprintf("the port of %s is bound on %s and not on its node %s", p, b.Chassis, p.node)
	case !b.Up:
		h.What = fmt.Sprintf("the port of %s is not up: ovn-controller of node %s has not made its flows", p, p.node)
	default:
		return true
	}
	way.stop(h)
	return false
}

// receive is the last step inside OVN: the receiver's policies.
func (e *explainer) receive(way *Way, from, to *party, p packet, loopback bool) {
	balanced := p.trace()
	balanced.Loopback = loopback
	d, err := e.table.Receive(to.port, balanced)
	e.other, e.judging = from, p
	if !e.judged(way, to, model.PolicyIngress, d, err) {
		// The direction between joined Networks is an access list of its own.
		last := &way.There[len(way.There)-1]
		if last.Layer == LayerPeering && from.isPod() && from.network != to.network {
			*last = e.unreached(from, to)
		}
		return
	}
	way.ok(LayerPod, to.node, to.network, "%s gets it at %s, from %s", to, p, p.src)
	way.arrive(to.String(), p.src.String())
	way.end = to.pod
	e.back(way, from, to)
}

// back adds the steps of the answer.
func (e *explainer) back(way *Way, from, to *party) {
	at := func(p *party, layer Layer, what string) {
		way.Back = append(way.Back, Hop{Layer: layer, Node: p.node, Network: p.network, OK: true, What: what})
	}
	at(to, LayerPolicy, fmt.Sprintf("%s answers: answers of a connection that was let in pass its policies", to))
	switch {
	case !to.isPod() || from.isPod() && (from.network == to.network || e.table.Joined(from.network, to.network)) ||
		e.flat(to.network) && from.isPod() && e.flat(from.network):
	case e.flat(to.network):
		at(to, LayerNode, "it leaves by the router of the default Network, to the node that the packet came from")
	default:
		at(to, LayerPorthole, fmt.Sprintf("it leaves by the porthole of Network %s on %s, which gives it the face again", to.network, to.node))
	}
	if from.isPod() {
		what := fmt.Sprintf("%s gets the answer from the address that it dialled, %s", from, way.Dialled)
		at(from, LayerPod, what)
	}
}

// unreached says why pods of one Network do not reach those of another.
func (e *explainer) unreached(from, to *party) Hop {
	h := Hop{Layer: LayerPeering, Node: from.node, Network: from.network}
	h.What = fmt.Sprintf("pods of Network %s do not reach those of Network %s", from.network, to.network)
	statuses, _ := e.peers.Statuses(from.network)
	for _, s := range statuses {
		if s.Uses && s.Network == to.network && s.State != model.CompatibilityActive {
			h.What += fmt.Sprintf(": Network %s is %s, %s: %s", from.network, s.State, s.Problem.Reason, s.Problem.Message)
			h.Next = e.peersHint(from.network)
			return h
		}
	}
	statuses, _ = e.peers.Statuses(to.network)
	for _, s := range statuses {
		if !s.Uses && s.Network == from.network && s.State != model.CompatibilityActive {
			h.What += fmt.Sprintf(": Network %s is %s, %s: %s", to.network, s.State, s.Problem.Reason, s.Problem.Message)
			h.Next = e.peersHint(to.network)
			return h
		}
	}
	if e.peers.Reaches(from.network, to.network) {
		h.What += " by the rows, and the objects ask for it"
		h.Next = "atoll check names what the rows lack"
		return h
	}
	if e.peers.Reaches(to.network, from.network) {
		h.What += ": compatibility has the other direction alone"
	} else {
		h.What += ": neither is compatible with the other"
	}
	h.Next = fmt.Sprintf("let spec.compatibleWith of Network %s name {network: %s}", to.network, from.network)
	if a, b := e.objects.Networks[from.network], e.objects.Networks[to.network]; a != nil && b != nil && a.Tenant != b.Tenant {
		h.Next += fmt.Sprintf(", and spec.uses of Network %s name %s, since they are of two tenants", from.network, to.network)
	}
	return h
}

// admitted reports whether the rows of a provider's Network let in what comes from a face.
func (e *explainer) admitted(network string, face netip.Addr) bool {
	return e.table.Holds(network, compile.FacesTaken, face)
}
