package policytrial

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// scope is as much of a cluster as a change of policies can concern.
type scope struct {
	q Question
	// changed are the policies that would be others, as they are and as they would be.
	changed []*model.Policy
	// networks are those where these select pods, near those and the ones that have to do with them.
	networks, near map[string]bool
	before, after  map[model.PolicyKey]*model.Policy
	asks           asks
	kins           []*kin
	machines       []*machines
	// spend is told of work before it is done.
	spend func(int) error
}

// scopeOf finds what a change can concern, with what it counts on the way.
func scopeOf(q Question, out *Outcome, spend func(int) error) (*scope, error) {
	s := &scope{q: q, networks: map[string]bool{}, near: map[string]bool{}, spend: spend}
	after := maps.Clone(q.Objects.Policies)
	for _, key := range slices.SortedFunc(maps.Keys(q.Policies), model.PolicyKey.Compare) {
		was, is := q.Objects.Policies[key], q.Policies[key]
		if delete(after, key); is != nil {
			after[key] = is
		}
		if was != nil && is != nil && sameJudge(*was, *is) {
			continue
		}
		for _, p := range []*model.Policy{was, is} {
			if p != nil {
				s.changed = append(s.changed, p)
			}
		}
	}
	for key, p := range q.Objects.Pods {
		if err := spend(1 + len(s.changed)); err != nil {
			return s, err
		}
		t := targetOf(p, q.Objects.Namespaces)
		if !slices.ContainsFunc(s.changed, func(policy *model.Policy) bool { return policy.Subject.Matches(t) }) || !s.sees(key) {
			continue
		}
		if out.Selected++; len(p.Assigned) == 0 {
			out.Waiting++
		} else {
			s.networks[p.Assigned[0].Network] = true
		}
	}
	s.look()
	s.before, s.after = s.relevant(q.Objects.Policies), s.relevant(after)
	policies := slices.Collect(maps.Values(s.before))
	for key, p := range s.after {
		if s.before[key] != p {
			policies = append(policies, p)
		}
	}
	s.asks = asksOf(policies)
	s.machines = s.asks.machines(q.Objects.Nodes)
	var err error
	s.kins, err = s.asks.kins(s.pods(), q.Objects.Namespaces, s.answering(), spend)
	return s, err
}

// sameJudge reports whether two policies are the same to packets.
func sameJudge(a, b model.Policy) bool {
	a.UID, a.Log, a.Problems = b.UID, b.Log, b.Problems
	return reflect.DeepEqual(a, b)
}

func (s *scope) sees(key model.PodKey) bool { return s.q.Sees == nil || s.q.Sees(key) }

// look finds the Networks that have to do with those where pods are selected.
func (s *scope) look() {
	d := s.q.Defaults
	peers := compatible.New(compatible.Settings{
		Faces: d.Faces, DefaultSubnet: d.Subnet, MaxJoined: d.MaxJoined, Default: d.Network,
		Taken: slices.Concat(d.Services, d.Gateways, d.Others),
	})
	for _, name := range slices.Sorted(maps.Keys(s.q.Objects.Networks)) {
		peers.Set(name, s.q.Objects.Networks[name])
	}
	for name := range s.networks {
		s.near[name] = true
		for _, other := range slices.Concat(peers.Providers(name), peers.Consumers(name), peers.Joined(name)) {
			s.near[other] = true
		}
	}
}

// pods are those of the Networks that are near, sorted.
func (s *scope) pods() (out []*model.Pod) {
	for _, key := range slices.SortedFunc(maps.Keys(s.q.Objects.Pods), model.PodKey.Compare) {
		if p := s.q.Objects.Pods[key]; len(p.Assigned) > 0 && s.near[p.Assigned[0].Network] {
			out = append(out, p)
		}
	}
	return out
}

// relevant are the policies that may decide about pods of the Networks that are near.
func (s *scope) relevant(all map[model.PolicyKey]*model.Policy) map[model.PolicyKey]*model.Policy {
	namespaces := map[string]bool{"": true}
	for _, p := range s.pods() {
		namespaces[p.Key.Namespace] = true
	}
	out := map[model.PolicyKey]*model.Policy{}
	for key, p := range all {
		if namespaces[key.Namespace] {
			out[key] = p
		}
	}
	return out
}

// doors are the Services that rules may mean by others' names: the cluster's DNS, the Kubernetes API, and those that answer for
// names in the Networks that are near.
func (s *scope) doors() map[model.ServiceKey]bool {
	out := map[model.ServiceKey]bool{s.q.Defaults.DNS: true, networks.APIService(): true}
	for name := range s.near {
		if n := s.q.Objects.Networks[name]; n != nil && n.DNS == model.DNSService {
			out[model.ServiceKey(n.DNSService)] = true
		}
	}
	return out
}

// answering are the pods behind the Services that answer for names in their Networks.
func (s *scope) answering() map[model.PodKey]bool {
	out := map[model.PodKey]bool{}
	for _, slice := range s.q.Objects.Slices {
		key := model.ServiceKey{Namespace: slice.Key.Namespace, Name: slice.Service}
		for _, e := range slice.Endpoints {
			if e.Pod.Name != "" && s.doors()[key] && key != s.q.Defaults.DNS {
				out[e.Pod] = true
			}
		}
	}
	return out
}

// objects are those that are compiled: all but pods, policies and Services that can make no difference.
func (s *scope) objects(policies map[model.PolicyKey]*model.Policy) model.Changes {
	all, out := s.q.Objects, model.NewChanges()
	out.Networks, out.Tenants, out.Namespaces, out.Nodes, out.Reports, out.Policies = all.Networks, all.Tenants, all.Namespaces, all.Nodes,
		all.Reports, policies
	doors := s.doors()
	for key := range doors {
		if service := all.Services[key]; service != nil {
			out.Services[key] = service
		}
	}
	for key, slice := range all.Slices {
		if !doors[model.ServiceKey{Namespace: key.Namespace, Name: slice.Service}] {
			continue
		}
		out.Slices[key] = slice
		for _, e := range slice.Endpoints {
			if p := all.Pods[e.Pod]; p != nil {
				out.Pods[e.Pod] = p
			}
		}
	}
	for _, k := range s.kins {
		for _, p := range k.pods {
			out.Pods[p.Key] = p
		}
	}
	return out
}

// concerns reports whether a change can decide otherwise about what pods of a group send or receive.
func (s *scope) concerns(k *kin, d model.Direction) bool {
	return s.networks[k.Network] && slices.ContainsFunc(s.changed, func(p *model.Policy) bool {
		return (p.Isolates[d] || len(p.Rules[d]) > 0) && p.Subject.Matches(k.target)
	})
}

// taken are addresses that are somebody's whom a Network's pods know by another name: its own pods', those of pods of others by
// their faces, nodes', and what stands for the DNS and the API.
func (s *scope) taken(n *model.Network) (out []netip.Prefix) {
	layout, _ := compile.Plan(*n, compile.Cluster{DefaultSubnet: s.q.Defaults.Subnet, Services: s.q.Defaults.Services})
	for _, r := range layout.Ranges() {
		out = append(out, r.CIDR)
	}
	single := func(a netip.Addr) { out = append(out, netip.PrefixFrom(a, a.BitLen())) }
	if n.Type == model.VPC {
		out = append(out, s.q.Defaults.Faces...)
	}
	for _, node := range s.q.Objects.Nodes {
		for _, a := range node.Addresses {
			single(a)
		}
		if node.Assigned != nil {
			for _, own := range node.Assigned.Addresses {
				single(own.Addr())
			}
		}
	}
	for _, b := range s.behindDoors(n) {
		for _, at := range b.Dialled {
			single(at.Addr())
		}
	}
	return out
}

// dnsPort is the port of DNS. (RFC 1035.)
const dnsPort = 53

// door is what pods of a Network dial for the cluster's DNS, or for the Kubernetes API.
type door struct {
	Group
	protocol model.Protocol
}

// behindDoors are those of a Network. Where pods of the Network answer for names, they are pods like others.
func (s *scope) behindDoors(n *model.Network) (out []door) {
	add := func(kind Kind, key model.ServiceKey, six netip.Addr) {
		service := s.q.Objects.Services[key]
		if service == nil {
			return
		}
		for _, port := range service.Ports {
			d := door{Group{Kind: kind, Network: n.Name}, port.Protocol}
			addresses := service.ClusterIPs
			if n.OnlyIPv6() && !model.HasIPv6(addresses) {
				addresses = []netip.Addr{six}
			}
			for _, a := range addresses {
				d.Dialled = append(d.Dialled, netip.AddrPortFrom(a, port.Port))
			}
			if len(d.Dialled) > 0 && (kind == API || port.Port == dnsPort) {
				out = append(out, d)
			}
		}
	}
	if n.Type != model.VPC || n.Name == s.q.Defaults.Network {
		return append(out, s.servers(n)...)
	}
	if n.DNS == model.DNSNode {
		add(Names, s.q.Defaults.DNS, model.NamesAddress6())
	}
	if n.Infra != model.InfraNone {
		add(API, networks.APIService(), model.APIAddress6())
	}
	return out
}

// servers are the Kubernetes API's, as pods of a flat Network reach them.
func (s *scope) servers(n *model.Network) []door {
	d := door{Group{Kind: API, Network: n.Name}, model.TCP}
	for key, slice := range s.q.Objects.Slices {
		if api := networks.APIService(); key.Namespace != api.Namespace || slice.Service != api.Name {
			continue
		}
		for _, e := range slice.Endpoints {
			for _, port := range slice.Ports {
				d.Dialled = append(d.Dialled, netip.AddrPortFrom(e.Address, port.Port))
			}
		}
	}
	slices.SortFunc(d.Dialled, netip.AddrPort.Compare)
	if len(d.Dialled) == 0 {
		return nil
	}
	return []door{d}
}
