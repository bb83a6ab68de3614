package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// explainer answers one question.
type explainer struct {
	*World
	q question.Question
	// unasked is why the southbound database was not.
	unasked error
	// judging is the packet that policies are asked about, and other who is at its other end; nil when that is no pod.
	judging packet
	other   *party
	// others are the ways that kube-proxy may lead the packet, beside the one that is followed.
	others []Way
	// met are the objects that the ways have met, whose rows may have drifted.
	met struct {
		networks []string
		owners   []nb.Owner
		// ports are those of endpoints.
		ports []uint16
	}
}

// party is somebody at an end: a pod with its port, a node, or an address outside.
type party struct {
	pod model.PodKey
	// port is the pod's; nil while it has none.
	port          *nb.LogicalSwitchPort
	network, node string
	// host is a node's name.
	host string
	// address is what somebody outside has; not valid when that is not known.
	address netip.Addr
}

func (p *party) isPod() bool { return p.pod != (model.PodKey{}) }

func (p *party) String() string {
	switch {
	case p.isPod():
		return "pod " + p.pod.String()
	case p.host != "":
		return "node " + p.host
	}
	return question.OutsideWord
}

// packet is what the sender sends: to an address that it dials, which may become another.
type packet struct {
	src, dst netip.Addr
	port     uint16
	protocol model.Protocol
}

func (p packet) String() string { return addressText(p.dst, p.port) }

func addressText(a netip.Addr, port uint16) string {
	if port == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

func (p packet) trace() trace.Packet {
	return trace.Packet{From: p.src, To: p.dst, Protocol: p.protocol, Port: p.port}
}

// explain finds the ends, and follows what the one sends to each address of the other.
func (e *explainer) explain() ([]Way, error) {
	from, err := e.sender()
	if err != nil {
		return nil, err
	}
	if from.isPod() {
		e.meet(from)
	}
	if from.isPod() && from.port == nil {
		return []Way{e.portless(from, "sends nothing")}, nil
	}
	if !from.isPod() {
		return e.fromOutside(from)
	}
	return e.fromPod(from)
}

func (e *explainer) meet(p *party) {
	if p.isPod() {
		e.met.owners = append(e.met.owners, nb.PodOwner(p.pod.Namespace, p.pod.Name))
	}
	e.met.networks = append(e.met.networks, p.network)
}

// party is a pod as the API and the database have it. Its error is that there is no such pod.
func (e *explainer) party(key model.PodKey) (*party, error) {
	pod := e.objects.Pods[key]
	out := &party{pod: key, port: e.table.Port(key.First().PortName())}
	switch {
	case out.port != nil:
		out.network, out.node = policyrows.NetworkOf(out.port), out.port.Options["requested-chassis"]
	case pod == nil:
		return nil, fmt.Errorf(
			"there is no pod %s with a network of its own: it may not exist, have finished, have no node yet, or use its node's network. Next: "+
				"kubectl get pod -n %s %s -o wide", key, key.Namespace, key.Name)
	default:
		out.node = pod.Node
		if len(pod.Assigned) > 0 {
			out.network = pod.Assigned[0].Network
		}
	}
	return out, nil
}

// portless is the way of a pod that has no port, with the reason.
func (e *explainer) portless(p *party, effect string) Way {
	var w Way
	h := Hop{Layer: LayerPod, Node: p.node, Network: p.network, What: fmt.Sprintf("%s has no port in OVN and %s", p, effect)}
	describe := fmt.Sprintf("kubectl describe pod -n %s %s", p.pod.Namespace, p.pod.Name)
	owner := nb.PodOwner(p.pod.Namespace, p.pod.Name)
	wanted := e.desired()
	_, plugged := wanted.Graph.Facts(owner)
	problem, refused := wanted.Decided.Problems[p.pod]
	switch {
	case refused && !plugged:
		h.What += fmt.Sprintf(": %s: %s", problem.Reason, problem.Message)
		h.Next = describe + " has the Event; change what it names"
	case plugged:
		h.What += ", and it should: the objects ask for it"
		h.Next = "does a controller lead, and what does its log say (kubectl -n atoll-system get lease atoll-controller)? " + describe +
			" has Events; atoll check names each row that is missing"
	default:
		h.What += ": nothing asks for it"
		h.Next = describe
	}
	w.stop(h)
	return w
}

// sender is who begins.
func (e *explainer) sender() (*party, error) {
	switch f := e.q.From; {
	case f.Node != "":
		if e.objects.Nodes[f.Node] == nil {
			return nil, fmt.Errorf("there is no node %s. Next: kubectl get nodes", f.Node)
		}
		return &party{host: f.Node, node: f.Node}, nil
	case f.Outside:
		return &party{}, nil
	case f.Address.IsValid():
		return e.whoHas(f.Address)
	default:
		return e.party(f.Pod)
	}
}

// whoHas finds whose an address is: of the Network that was asked for, else of anybody if it is nobody else's.
func (e *explainer) whoHas(a netip.Addr) (*party, error) {
	if key, is := e.faces[a]; is && e.q.Network == "" {
		return e.party(key)
	}
	var holders []string
	var only *party
	for _, key := range e.ownings[a] {
		p, err := e.party(key)
		if err != nil {
			continue
		}
		if e.q.Network != "" && p.network != e.q.Network {
			continue
		}
		holders, only = append(holders, fmt.Sprintf("%s in Network %s", p, p.network)), p
	}
	if e.q.Network == "" {
		for _, n := range e.objects.Nodes {
			if slices.Contains(n.Addresses, a) {
				holders, only = append(holders, "node "+n.Name), &party{host: n.Name, node: n.Name}
			}
		}
	}
	slices.Sort(holders)
	switch {
	case len(holders) > 1:
		return nil, &question.AmbiguousError{Address: a, Holders: holders}
	case only != nil:
		return only, nil
	case e.q.Network != "":
		return nil, fmt.Errorf(
			"no pod of Network %s has the address %s. Next: kubectl get pods -A -o wide, whose annotation atoll.dev/addresses has it", e.q.Network,
			a)
	}
	return &party{address: a}, nil
}

// sources are the sender's addresses, as it has them itself.
func (p *party) sources() []netip.Addr { return trace.Addresses(p.port) }

// as is the sender's address of the family of another one; false when it has none.
func (p *party) as(family netip.Addr) (netip.Addr, bool) { return ofFamily(p.sources(), family.Is4()) }

func ofFamily(all []netip.Addr, v4 bool) (netip.Addr, bool) {
	for _, a := range all {
		if a.Is4() == v4 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// target is an address that is dialled, with what led there.
type target struct {
	to   netip.Addr
	port uint16
	hops []Hop
}

// fromPod follows what a pod sends.
func (e *explainer) fromPod(from *party) ([]Way, error) {
	targets, ended, err := e.targets(from)
	if err != nil || len(ended) > 0 {
		return ended, err
	}
	var out []Way
	for _, t := range targets {
		src, has := from.as(t.to)
		if !has {
			continue
		}
		for _, way := range e.walk(from, packet{src, t.to, t.port, e.q.Protocol}) {
			way.There = slices.Concat(way.There[:1], t.hops, way.There[1:])
			out = append(out, way)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s and %s have no IP family in common", e.q.From, e.q.To)
	}
	return out, nil
}

// targets are the addresses that a pod dials to get to the other end; ended: it dials none, and why.
func (e *explainer) targets(from *party) (targets []target, ended []Way, err error) {
	at := func(a netip.Addr, hops ...Hop) { targets = append(targets, target{a, e.q.Port, hops}) }
	switch to := e.q.To; {
	case to.Pod != (model.PodKey{}):
		p, err := e.party(to.Pod)
		if err != nil {
			return nil, nil, err
		}
		return e.toParty(from, p)
	case to.Service != (model.ServiceKey{}):
		return e.toService(from, to.Service)
	case to.Name != "":
		return e.toName(from, to.Name)
	case to.Node != "":
		n := e.objects.Nodes[to.Node]
		if n == nil || len(n.Addresses) == 0 {
			return nil, nil, fmt.Errorf("there is no node %s with an address. Next: kubectl get nodes -o wide", to.Node)
		}
		for _, v4 := range []bool{true, false} {
			if a, has := ofFamily(n.Addresses, v4); has {
				at(a, Hop{Layer: LayerNode, Node: n.Name, OK: true, What: fmt.Sprintf("node %s is %s", n.Name, a)})
			}
		}
	case to.Outside:
		for _, a := range somewhere() {
			if _, has := from.as(a); has {
				at(a, Hop{
					Layer: LayerOutside, OK: true, What: fmt.Sprintf("%s stands for outside; a policy's ipBlock may tell other addresses from it", a),
				})
			}
		}
	case e.q.Network != "" && e.q.Network != from.network:
		p, err := e.whoHas(to.Address)
		if err != nil {
			return nil, nil, err
		}
		return e.toParty(from, p)
	default:
		at(to.Address, e.whose(from, to.Address)...)
	}
	return targets, nil, nil
}

// somewhere is an address of each IP family that nobody has: those of documents. (RFC 5737, RFC 3849.)
func somewhere() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
}

// whose says who has an address elsewhere, and is not meant.
func (e *explainer) whose(from *party, a netip.Addr) []Hop {
	var others []string
	for _, key := range e.ownings[a] {
		if p, err := e.party(key); err == nil && p.network != from.network && e.table.Leads(from.network, a) != p.network &&
			!e.table.Instead(from.port, a).IsValid() {
			others = append(others, fmt.Sprintf("%s in Network %s", p, p.network))
		}
	}
	if len(others) == 0 {
		return nil
	}
	what := fmt.Sprintf("%s is dialled in Network %s; %s, who has it too, is not meant", a, from.network, others[0])
	if n := len(others); n > 1 {
		what = fmt.Sprintf("%s is dialled in Network %s; %d pods of other Networks, such as %s, have it too and are not meant", a, from.network,
			n, others[0])
	}
	return []Hop{{Layer: LayerPod, Network: from.network, OK: true, What: what}}
}

// toParty are the addresses by which a pod dials another: in its own Network the own ones, in another the faces, and the own ones too where
// these lead there.
func (e *explainer) toParty(from, to *party) ([]target, []Way, error) {
	e.meet(to)
	if to.port == nil {
		w := e.portless(to, "gets nothing")
		w.There = append([]Hop{e.begin(from)}, w.There...)
		return nil, []Way{w}, nil
	}
	if from.pod == to.pod {
		return nil, nil, fmt.Errorf("%s is %s: what a pod sends to itself never leaves it", e.q.From, e.q.To)
	}
	var addresses []netip.Addr
	own := trace.Addresses(to.port)
	switch {
	case from.network == to.network, e.flat(from.network) && e.flat(to.network):
		addresses = own
	case e.flat(to.network):
		addresses = own
	default:
		for _, a := range own {
			instead := e.table.Instead(from.port, a)
			if e.table.Leads(from.network, a) == to.network || instead.IsValid() && e.faces[instead] == to.pod {
				addresses = append(addresses, a)
			}
		}
		addresses = append(addresses, e.facesOf(to.pod)...)
	}
	var out []target
	for _, a := range addresses {
		out = append(out, target{
			a, e.q.Port, []Hop{
				{Layer: LayerPod, Node: to.node, Network: to.network, OK: true, What: fmt.Sprintf("%s is dialled as %s", to, e.kindOf(to, a))},
			},
		})
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf(
			"%s has no address by which pods of Network %s could dial it: it has no face. Next: kubectl describe pod -n %s %s", to, from.network,
			to.pod.Namespace, to.pod.Name)
	}
	return out, nil, nil
}

// kindOf is an address of a pod in words.
func (e *explainer) kindOf(p *party, a netip.Addr) string {
	if e.faces[a] == p.pod {
		return a.String() + ", its face"
	}
	return a.String() + ", its own address in Network " + p.network
}

// facesOf are those that are written on a pod.
func (e *explainer) facesOf(key model.PodKey) (out []netip.Addr) {
	if pod := e.objects.Pods[key]; pod != nil {
		for _, a := range pod.Assigned {
			out = append(out, a.Faces...)
		}
	}
	return out
}

// flat reports whether a Network's pods have no faces and no porthole.
func (e *explainer) flat(network string) bool {
	n := e.objects.Networks[network]
	return network == e.settings.Network || n != nil && n.Type == model.Flat
}

// begin is the first step of a way: who sends.
func (e *explainer) begin(from *party) Hop {
	what := fmt.Sprintf("%s sends", from)
	if from.port != nil {
		what += " from " + joinAddresses(from.sources())
	}
	return Hop{Layer: LayerPod, Node: from.node, Network: from.network, OK: true, What: what}
}

func joinAddresses(all []netip.Addr) string {
	texts := make([]string, 0, len(all))
	for _, a := range all {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " and ")
}
