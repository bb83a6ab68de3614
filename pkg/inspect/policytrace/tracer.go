package policytrace

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Follow follows a packet through the ACLs that the northbound database has.
func Follow(ctx context.Context, from connect.Servers, q Query) (Trace, error) {
	heard := &connect.LastWarning{}
	northbound, end, err := connect.ToDatabase(ctx, from.Kubeconfig, api.DatabaseNorthbound, from.Northbound)
	if err != nil {
		return Trace{}, err
	}
	defer end()
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: northbound, Log: slog.New(heard)})
	if err != nil {
		return Trace{}, heard.Explain(err)
	}
	defer session.Close()
	t := Tracer{
		Rows:    trace.New(session.Rows),
		Cluster: func() (model.Changes, error) { return connect.ClusterObjects(ctx, from.Kubeconfig, heard) },
	}
	result, err := t.trace(q)
	return result, heard.Explain(err)
}

// Tracer follows packets.
type Tracer struct {
	Rows *trace.Database
	// Cluster reads the API's objects. It is asked at most once, and only if they are needed: for the addresses of a Service,
	// and for the policies that isolate a pod, of which those without rules have no rows.
	Cluster func() (model.Changes, error)
	read    *model.Changes
}

func (t *Tracer) objects() (model.Changes, error) {
	if t.read == nil {
		objects, err := t.Cluster()
		if err != nil {
			return objects, err
		}
		t.read = &objects
	}
	return *t.read, nil
}

// route is one way that a packet may take: from an address to one, perhaps led from a Service's.
type route struct {
	from, to netip.Addr
	port     uint16
	// dialled is the address and port that led there, a Service's or a pod's; not valid where none did.
	dialled netip.AddrPort
	// refused: the Service has no endpoints.
	refused bool
}

// trace follows the packet on every way that it may take: in each IP family, to each endpoint.
func (t *Tracer) trace(q Query) (Trace, error) {
	out := Trace{From: q.From.String(), To: q.To.String(), Protocol: string(q.Protocol), Port: q.Port}
	from, err := t.port(q.From)
	if err != nil {
		return out, err
	}
	to, err := t.port(q.To)
	if err != nil {
		return out, err
	}
	switch {
	case from != nil && to != nil && policyrows.NetworkOf(from) != policyrows.NetworkOf(to) && !t.reaches(from, to) &&
		!t.Rows.Joined(policyrows.NetworkOf(from), policyrows.NetworkOf(to)):
		return out, fmt.Errorf(
			"%s is in Network %s and %s in Network %s, whose pods the other's do not reach. Next: kubectl get network %s -o "+
				"jsonpath='{.status.compatibility}'",
			q.From, policyrows.NetworkOf(from), q.To, policyrows.NetworkOf(to), policyrows.NetworkOf(to))
	case from != nil:
		out.Network = policyrows.NetworkOf(from)
	default:
		out.Network = policyrows.NetworkOf(to)
	}
	if from == nil {
		// An address of the Network is some pod's, which must be allowed to send.
		from = t.holder(out.Network, q.From.Address)
	}
	if from != nil && from == to {
		return out, fmt.Errorf("%s is %s: what a pod sends to itself never leaves it", q.From, q.To)
	}
	routes, err := t.routes(q, from, to)
	if err != nil {
		return out, err
	}
	for _, r := range routes {
		p, err := t.follow(q, r, from, out.Network)
		if err != nil {
			return out, err
		}
		out.Paths = append(out.Paths, p)
	}
	return out, nil
}

// holder is the port of the pod that an address means in a Network: one of its own, or of one that is joined to it. nil: no pod's.
func (t *Tracer) holder(network string, a netip.Addr) *nb.LogicalSwitchPort {
	if port := t.Rows.At(network, a); port != nil {
		return port
	}
	if other := t.Rows.Leads(network, a); other != "" {
		return t.Rows.At(other, a)
	}
	return nil
}

// port is that of an end that is a pod; nil when it is none.
func (t *Tracer) port(e question.End) (*nb.LogicalSwitchPort, error) {
	if e.Pod == (model.PodKey{}) {
		return nil, nil
	}
	port := t.Rows.Port(e.Pod.First().PortName())
	if port == nil {
		return nil, fmt.Errorf(
			"pod %s has no port in the northbound database. Next: is there such a pod (kubectl get pod -n %s %s), and does atoll check name it?",
			e.Pod, e.Pod.Namespace, e.Pod.Name)
	}
	return port, nil
}

// routes are the ways from one end to the other.
func (t *Tracer) routes(q Query, from, to *nb.LogicalSwitchPort) ([]route, error) {
	sources := []netip.Addr{q.From.Address}
	if from != nil && !q.From.Address.IsValid() {
		sources = trace.Addresses(from)
	}
	var targets []netip.Addr
	switch {
	case to != nil && from != nil && policyrows.NetworkOf(from) != policyrows.NetworkOf(to):
		// Where the two are joined, the pod has two kinds of addresses for the other.
		if t.Rows.Joined(policyrows.NetworkOf(from), policyrows.NetworkOf(to)) {
			targets = trace.Addresses(to)
		} else {
			targets = t.dialled(from, to)
		}
		if t.reaches(from, to) {
			targets = append(targets, t.Rows.Faces(to)...)
		}
	case to != nil:
		targets = trace.Addresses(to)
	case q.To.Address.IsValid():
		targets = []netip.Addr{q.To.Address}
	default:
		var err error
		if targets, err = t.addressesOf(q.To.Service, policyrows.NetworkOf(from)); err != nil {
			return nil, err
		}
	}
	var out []route
	for _, target := range targets {
		i := slices.IndexFunc(sources, func(a netip.Addr) bool { return a.Is4() == target.Is4() })
		if i < 0 {
			continue
		}
		ways, err := t.ways(q, from, sources[i], target)
		if err != nil {
			return nil, err
		}
		out = append(out, ways...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s and %s have no IP family in common", q.From, q.To)
	}
	return out, nil
}

// dialled are a pod's own addresses that lead to it from another Network, whose router is not joined to its own.
func (t *Tracer) dialled(from, to *nb.LogicalSwitchPort) (out []netip.Addr) {
	for _, own := range trace.Addresses(to) {
		if holder, _ := t.Rows.WithFace(t.Rows.Instead(from, own)); holder == to {
			out = append(out, own)
		}
	}
	return out
}

// ways are those to an address: to itself, or to each endpoint that it leads to.
func (t *Tracer) ways(q Query, from *nb.LogicalSwitchPort, source, target netip.Addr) ([]route, error) {
	plain := []route{{from: source, to: target, port: q.Port}}
	if from == nil {
		return plain, nil
	}
	dialled := netip.AddrPortFrom(target, q.Port)
	if instead := t.Rows.Instead(from, target); instead.IsValid() {
		plain = []route{{from: source, to: instead, port: q.Port, dialled: dialled}}
	}
	if q.Protocol == trace.ICMP {
		return plain, nil
	}
	endpoints, known := t.Rows.Balance(from, dialled, q.Protocol)
	switch {
	case !known && q.To.Service != (model.ServiceKey{}):
		return nil, fmt.Errorf("%s has no %s port %d in Network %s. Next: kubectl get service -n %s %s", q.To, q.Protocol, q.Port,
			policyrows.NetworkOf(from), q.To.Service.Namespace, q.To.Service.Name)
	case !known:
		return plain, nil
	case len(endpoints) == 0:
		return []route{{from: source, to: target, port: q.Port, dialled: dialled, refused: true}}, nil
	}
	var out []route
	for _, e := range endpoints {
		out = append(out, route{from: source, to: e.Addr(), port: e.Port(), dialled: dialled})
	}
	return out, nil
}

// addressesOf are the addresses at which the pods of a Network dial a Service.
func (t *Tracer) addressesOf(key model.ServiceKey, network string) ([]netip.Addr, error) {
	objects, err := t.objects()
	if err != nil {
		return nil, fmt.Errorf("read Service %s: %w", key, err)
	}
	s := objects.Services[key]
	if s == nil {
		return nil, fmt.Errorf("there is no Service %s with an address", key)
	}
	if s.Assigned != nil && s.Assigned.Network == network && len(s.Assigned.Addresses) > 0 {
		return s.Assigned.Addresses, nil
	}
	return s.ClusterIPs, nil
}

// follow judges a packet on one way.
func (t *Tracer) follow(q Query, r route, from *nb.LogicalSwitchPort, network string) (Path, error) {
	path := Path{From: r.from.String(), To: r.to.String(), Port: r.port, Refused: r.refused}
	if r.dialled.IsValid() {
		if path.Dialled = r.dialled.String(); r.port == 0 {
			path.Dialled = r.dialled.Addr().String()
		}
	}
	if r.refused {
		return path, nil
	}
	to := t.holder(network, r.to)
	balanced := trace.Packet{From: r.from, To: r.to, Protocol: q.Protocol, Port: r.port, Loopback: from != nil && from == to}
	if from != nil {
		dialled := balanced
		if r.dialled.IsValid() {
			dialled.To, dialled.Port = r.dialled.Addr(), r.dialled.Port()
		}
		d, err := t.Rows.Send(from, dialled, balanced)
		if err != nil {
			return path, err
		}
		path.Steps = append(path.Steps, t.Step(from, model.PolicyEgress, d))
		if !d.Allowed {
			return path, nil
		}
	}
	if to == nil && from != nil {
		// It comes into another Network as from the sender's face.
		to, balanced = t.beyond(from, balanced)
	}
	if to == nil {
		path.Outside = true
		return path, nil
	}
	if balanced.Loopback {
		// A packet that its own Service leads back comes from the Service's address. (ovn-nb(5), Load_Balancer.)
		balanced.From = r.dialled.Addr()
	}
	d, err := t.Rows.Receive(to, balanced)
	if err != nil {
		return path, err
	}
	path.Steps = append(path.Steps, t.Step(to, model.PolicyIngress, d))
	return path, nil
}

// reaches reports whether the pod of a port may come into the Network of another, by the rows of that Network.
func (t *Tracer) reaches(from, to *nb.LogicalSwitchPort) bool {
	return slices.ContainsFunc(t.Rows.Faces(from),
		func(face netip.Addr) bool { return t.Rows.Holds(policyrows.NetworkOf(to), compile.FacesTaken, face) })
}

// beyond finds the pod of another Network to whose face a packet goes, and the packet as it comes there; nil when it comes to none.
func (t *Tracer) beyond(from *nb.LogicalSwitchPort, p trace.Packet) (*nb.LogicalSwitchPort, trace.Packet) {
	to, own := t.Rows.WithFace(p.To)
	if to == nil || policyrows.NetworkOf(to) == policyrows.NetworkOf(from) || !t.reaches(from, to) {
		return nil, p
	}
	for _, face := range t.Rows.Faces(from) {
		if face.Is4() == own.Is4() {
			p.From, p.To = face, own
			return to, p
		}
	}
	return nil, p
}

// Step puts a decision into words.
func (t *Tracer) Step(port *nb.LogicalSwitchPort, direction model.Direction, d trace.Decision) Step {
	s := Step{Pod: port.Name, Direction: direction.String(), Verdict: policyrows.VerdictWord(d.Allowed)}
	origin, ours := d.Origin()
	switch {
	case d.ACL == nil && d.TurnedBack:
		s.Reason = "OVN turns it back at the pod's own port before it judges what the pod sends"
		return s
	case d.ACL == nil:
		s.Reason = "no rule is about it, and no policy isolates the pod"
		return s
	case !ours:
		s.Reason = "ACL " + d.ACL.UUID + ", which is not of Atoll"
		return s
	}
	s.Reason, s.Policy, s.Rule = policyrows.Words(origin), origin.Policy, origin.Rule
	for _, also := range d.Also {
		if o, ours := nb.OriginOf(also.Match); ours && policyrows.Words(o) != s.Reason {
			s.Also = append(s.Also, policyrows.Words(o))
		}
	}
	if origin.Policy == nb.Isolation || origin.Rule == nb.RuleIsolation {
		s.Reason = "isolation: no policy allows it"
		s.Isolating, s.Unknown = t.isolating(port, direction)
	}
	return s
}

// isolating are the policies of the API that isolate the pod of a port, or why that is not known.
func (t *Tracer) isolating(port *nb.LogicalSwitchPort, direction model.Direction) (policies []string, unknown string) {
	objects, err := t.objects()
	if err != nil {
		return nil, err.Error()
	}
	pod, known := policyrows.PodOf(port.ExternalIDs[nb.KeyOwner])
	if policies = policyrows.Isolating(objects, pod, direction); !known || len(policies) == 0 {
		return nil, "the API server has none (atoll check names what OVN has otherwise)"
	}
	return policies, ""
}
