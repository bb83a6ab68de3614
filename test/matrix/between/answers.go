package between

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Placed is a pod with what the cluster gave it.
type Placed struct {
	random.Placed
	App string
}

// Service is the Service web of a namespace, which has the name of its Network.
type Service struct {
	Network string
	// ClusterIPs are known wherever it is known, Own to its Network and those that take them from it.
	ClusterIPs, Own []netip.Addr
}

// World is a scene with what the cluster gave it.
type World struct {
	Networks []Known
	Pods     []Placed
	Services []Service
	Policies []Policy
}

// Answer is what must become of what a pod sends to an address.
type Answer struct {
	// May are the UIDs of those who may answer.
	May []string
	// Sure: one of them does. Else it may be led to somebody whom policies keep it from.
	Sure bool
}

// asker answers questions about one World.
type asker struct {
	World
	routed map[Edge]bool
	// dialled are the edges on which own addresses are dialled.
	dialled map[Edge]bool
	// ranged are those on which Services are dialled by addresses of the provider's own ranges.
	ranged map[Edge]bool
	rules  oracle.Cluster
}

func (w World) asker() asker {
	a := asker{
		World: w, routed: Edges(w.Networks), dialled: Dialled(w.Networks), ranged: Ranged(w.Networks),
		rules: oracle.Cluster{Policies: w.Policies},
	}
	a.rules.Compatible = a.compatible()
	for _, n := range w.Networks {
		a.rules.Namespaces = append(a.rules.Namespaces, corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelMetadataName: n.Name}},
		})
	}
	for _, p := range w.Pods {
		known := oracle.Pod{Network: p.Network, Addresses: p.Own, Faces: p.Faces}
		known.Namespace, known.Name, known.Labels, known.Spec.NodeName = p.Namespace, p.Name, map[string]string{"app": p.App}, p.Node
		a.rules.Pods = append(a.rules.Pods, known)
	}
	return a
}

// compatible are the edges as policies are told.
func (a asker) compatible() (out []oracle.Compatibility) {
	for e := range a.routed {
		out = append(out, oracle.Compatibility(e))
	}
	return out
}

// reaches reports whether pods of a Network reach those of another: their own, and those of whoever serves them.
func (a asker) reaches(network, other string) bool {
	_, served := a.routed[Edge{Provider: other, Consumer: network}]
	return network == other || served
}

// ranges reports whether pods of a Network dial Services of another by addresses of its own ranges.
func (a asker) ranges(network, other string) bool {
	return network == other || a.ranged[Edge{Provider: other, Consumer: network}]
}

// answer is what must become of what a pod sends to an address: it means a pod or a Service, to the pods of the sender's Network.
func (a asker) answer(from Placed, to netip.Addr, protocol wire.Protocol) Answer {
	for _, p := range a.Pods {
		own, face := slices.Contains(p.Own, to), slices.Contains(p.Faces, to)
		known := own && (p.Network == from.Network || a.dialled[Edge{Provider: p.Network, Consumer: from.Network}])
		if known || face && a.reaches(from.Network, p.Network) {
			return a.judged(from, to, protocol, p)
		}
	}
	for _, s := range a.Services {
		if slices.Contains(s.Own, to) && a.ranges(from.Network, s.Network) || slices.Contains(s.ClusterIPs, to) && a.knows(from.Network, s) {
			return a.judged(from, to, protocol, a.behind(from, to, s)...)
		}
	}
	return Answer{}
}

// knows reports whether a Service is known in a Network: in that of its namespace, in those that this one serves, and in those of
// the pods behind it.
func (a asker) knows(network string, s Service) bool {
	return a.reaches(network, s.Network) || slices.ContainsFunc(a.Pods, func(p Placed) bool { return backs(p, s) && p.Network == network })
}

// backs reports whether a pod is behind a Service.
func backs(p Placed, s Service) bool { return p.Namespace == s.Network && p.App == "web" }

// behind are the pods of a Service to which a client may be led: of its own Network, and of those that it reaches.
func (a asker) behind(from Placed, to netip.Addr, s Service) (out []Placed) {
	for _, p := range a.Pods {
		if backs(p, s) && a.reaches(from.Network, p.Network) && speaks(p, to) {
			out = append(out, p)
		}
	}
	return out
}

// judged is what policies leave of those to whom an address may lead.
func (a asker) judged(from Placed, to netip.Addr, protocol wire.Protocol, ends ...Placed) Answer {
	out := Answer{Sure: len(ends) > 0}
	for _, end := range ends {
		if a.allowed(from, end, to.Is4(), protocol) {
			out.May = append(out.May, end.UID)
		} else {
			out.Sure = false
		}
	}
	return out
}

// allowed asks the policies of both ends. In another Network than its own a pod is known by its face.
func (a asker) allowed(from, to Placed, v4 bool, protocol wire.Protocol) bool {
	packet := oracle.Packet{Protocol: corev1.Protocol(strings.ToUpper(string(protocol))), Port: wire.DefaultPort}
	inside := func(p Placed) oracle.End { return oracle.End{Pod: p.String(), Address: ofFamily(p.Own, v4)} }
	outside := func(p Placed) oracle.End { return oracle.End{Address: ofFamily(p.Faces, v4)} }
	if from.Network == to.Network {
		packet.Network, packet.From, packet.To = from.Network, inside(from), inside(to)
		return a.rules.Judge(packet).Allowed
	}
	packet.Network, packet.From, packet.To = from.Network, inside(from), outside(to)
	leaves := a.rules.Judge(packet).Allowed
	packet.Network, packet.From, packet.To = to.Network, outside(from), inside(to)
	return leaves && a.rules.Judge(packet).Allowed
}

func ofFamily(some []netip.Addr, v4 bool) netip.Addr {
	i := slices.IndexFunc(some, func(a netip.Addr) bool { return a.Is4() == v4 })
	if i < 0 {
		return netip.Addr{}
	}
	return some[i]
}

// speaks: a pod has an address of that family, without which it neither sends nor is reached.
func speaks(p Placed, to netip.Addr) bool { return ofFamily(p.Own, to.Is4()).IsValid() }

// Paths are all paths among the pods, by own address and by face, and to the Services, each with what must become of it. From pod
// to pod TCP and UDP take turns; Services are asked by both.
func (w World) Paths() []random.Path { return w.asker().paths() }

func (a asker) paths() []random.Path {
	var out []random.Path
	add := func(i int, way random.Way, to string, addresses []netip.Addr, turn int) {
		for k, address := range addresses {
			if !speaks(a.Pods[i], address) {
				continue
			}
			protocol := [...]wire.Protocol{wire.TCP, wire.UDP}[(turn+k)%2]
			answer := a.answer(a.Pods[i], address, protocol)
			out = append(out, random.Path{
				From: i, Way: way, To: to, Address: address, Protocol: protocol, May: answer.May, Open: len(answer.May) > 0 && !answer.Sure,
			})
		}
	}
	for i := range a.Pods {
		for j, to := range a.Pods {
			if i != j {
				add(i, random.ByAddress, to.String()+" ("+to.Network+")", to.Own, i+j)
				add(i, random.ByFace, to.String()+" ("+to.Network+")", to.Faces, i+j+1)
			}
		}
		for _, s := range a.Services {
			for turn := range 2 {
				add(i, random.ByService, "Service "+s.Network+"/web", slices.Concat(s.ClusterIPs, s.Own), turn)
			}
		}
	}
	return out
}

// Placed are the pods as random.Run and random.Verdict know them.
func (w World) Placed() []random.Placed {
	var out []random.Placed
	for _, p := range w.Pods {
		out = append(out, p.Placed)
	}
	return out
}

// Names are, for the pods of each Network, what the name of each namespace's Service stands for: the address that it has in its
// own Network, for that and for those that take addresses of its ranges; else, where it is known, its ClusterIPs; else it does
// not exist. A family without such an address keeps the ClusterIP.
func (w World) Names() map[string]map[string][]netip.Addr {
	a, out := w.asker(), map[string]map[string][]netip.Addr{}
	for _, n := range w.Networks {
		out[n.Name] = map[string][]netip.Addr{}
		for _, s := range w.Services {
			out[n.Name][s.Network] = nil
			if !a.knows(n.Name, s) {
				continue
			}
			for _, ip := range s.ClusterIPs {
				if own := ofFamily(s.Own, ip.Is4()); own.IsValid() && a.ranges(n.Name, s.Network) {
					ip = own
				}
				out[n.Name][s.Network] = append(out[n.Name][s.Network], ip)
			}
		}
	}
	return out
}

// MayLookUp reports whether a pod may ask for names: no policy says whom it may send to. None that is drawn admits the DNS.
func (w World) MayLookUp(p Placed) bool {
	return !slices.ContainsFunc(w.Policies, func(policy Policy) bool {
		return policy.Namespace == p.Namespace && policy.Spec.PodSelector.MatchLabels["app"] == p.App &&
			slices.Contains(policy.Spec.PolicyTypes, netv1.PolicyTypeEgress)
	})
}

// Across counts the paths on which a pod of another Network may answer, by the way that is asked.
func (w World) Across(paths []random.Path) map[random.Way]int {
	network := map[string]string{}
	for _, p := range w.Pods {
		network[p.UID] = p.Network
	}
	out := map[random.Way]int{}
	for _, p := range paths {
		if slices.ContainsFunc(p.May, func(uid string) bool { return network[uid] != w.Pods[p.From].Network }) {
			out[p.Way]++
		}
	}
	return out
}
