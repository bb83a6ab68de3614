package attach

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// judge decides where a pod belongs and whether it may be there. It takes addresses and faces from the ledger; settle does the rest.
//
// A pod that has addresses holds them for as long as it lives, even while it may not use them: its containers
// know no others, and nobody else shall have them when it may again.
func (s *Stage) judge(p *pod) verdict {
	ns, held := s.Cluster.Namespaces[p.Key.Namespace], p.held()
	if ns == nil && held == nil {
		// Its namespace's own notice is under way, or it is being deleted.
		return verdict{}
	}
	wish := s.choose(p, ns)
	n := s.Networks.Get(wish.network)
	v := verdict{network: wish.network, attachment: held}
	if s.needsFaces(n) && (held != nil || s.Networks.Admits(wish.network, ns)) {
		v.faced = p.Node
	} else if held != nil {
		// A Network that has gone needs no faces: the pod keeps those that it has.
		v.faced = p.faced
	}
	if held == nil && v.faced != "" && !s.Nodes.Serves(p.Node) {
		// It is nothing to the Network before its node has a block of faces.
		return v
	}
	attachment, problem := s.addresses(n, p, ns, wish)
	ready := true
	if attachment != nil {
		var unseen *model.Problem
		ready, unseen = s.face(n, p, attachment)
		problem = cmp.Or(problem, unseen)
		if unseen != nil && held == nil {
			// It was never told of its addresses: it holds nothing.
			ledger.Release(s.Subnets.Pools(n.Name, attachment.Subnet), addressesOf(*attachment), ledger.Pod(p.Key))
		} else {
			v.attachment = attachment
		}
	} else if p.attachment == nil && held != nil {
		// What an earlier controller gave it is not served now; it holds the rest, as if this one had given it.
		s.holdFaces(n, p, *held)
	}
	v.counted = v.attachment != nil && n != nil && v.attachment.NetworkUID == n.Model.UID
	v.problem = problem
	// Without a problem it may still wait for its namespace's notice, or its node's.
	v.plugged = problem == nil && ns != nil && ready
	return v
}

// choice is a pod's Network and who chose it.
type choice struct {
	network string
	chooser networks.Chooser
}

// choose finds the Network of a pod: where it already is, else its own choice, else its namespace's home. It is fixed once the
// pod has addresses: what a label says later does not move it.
func (s *Stage) choose(p *pod, ns *model.Namespace) choice {
	a := p.held()
	switch {
	case a != nil:
		return choice{a.Network, networks.ByHolding}
	case p.NIC.Network != "":
		return choice{p.NIC.Network, networks.ByAnnotation}
	case p.Network != "":
		return choice{p.Network, networks.ByLabel}
	case ns != nil:
		return choice{s.Cluster.HomeOf(*ns), networks.ChooserOf(*ns)}
	}
	return choice{s.Cluster.Network, networks.ByDefault}
}

func addressesOf(a model.Attachment) []netip.Addr {
	addresses := make([]netip.Addr, 0, len(a.Addresses))
	for _, prefix := range a.Addresses {
		addresses = append(addresses, prefix.Addr())
	}
	return addresses
}

// echoes reports whether nothing is new about a pod that has its port but that what was decided of it is written on it.
func (p *pod) echoes(now *model.Pod) bool {
	if !p.plugged || !p.told(now) {
		return false
	}
	before := *now
	before.Assigned = p.Assigned
	return reflect.DeepEqual(before, *p.Pod)
}

// told reports whether the pod's interface is written on it.
func (p *pod) told(now *model.Pod) bool {
	return len(now.Assigned) == 1 && reflect.DeepEqual(now.Assigned[0], *p.attachment)
}

// addresses finds the interface of p in n and takes its addresses, or says what speaks against it; both when
// the pod holds addresses that it may not use now. A namespace that is not known grants nothing.
func (s *Stage) addresses(n *networks.Network, p *pod, ns *model.Namespace, wish choice) (*model.Attachment, *model.Problem) {
	refuse := func(reason, format string, args ...any) *model.Problem {
		return new(model.Problemf(reason, format, args...))
	}
	var kept *model.Attachment
	if a := p.held(); a != nil && n != nil {
		var problem *model.Problem
		if kept, problem = s.keep(n, p, *a); problem != nil {
			return nil, problem
		}
	}
	switch {
	case kept == nil && !s.Networks.Admits(wish.network, ns):
		return nil, s.Networks.NotFound(wish.network, wish.chooser, ns)
	case ns == nil:
		return kept, nil
	case !n.Admits(*ns):
		return kept, refuse(model.ReasonNamespaceNotAllowed,
			"Network %q, where the pod has its addresses, no longer admits namespace %q: ask whoever runs the cluster, or delete "+
				"the pod to attach it elsewhere", n.Name, ns.Name)
	case kept != nil:
		return kept, nil
	case p.Unwritable != "":
		return nil, refuse(model.ReasonAnnotationRefused, "%s", p.Unwritable)
	case p.NICError != "" && n.Model.Type == model.VPC:
		return nil, refuse(model.ReasonInvalidNICs, "%s", p.NICError)
	case n.Model.Deleting:
		return nil, refuse(model.ReasonNetworkTerminating, "Network %q is being deleted", n.Name)
	case len(n.Layout.Listed()) == 0:
		return nil, refuse(model.ReasonNetworkInvalid, "Network %q serves no subnet: %s", n.Name, firstMessage(n.Withheld()))
	}
	if problem := s.overQuota(*ns); problem != nil {
		return nil, problem
	}
	if problem := s.facesGone(n, p); problem != nil {
		return nil, problem
	}
	return s.assign(n, p)
}

// held is the interface that the pod has: by this controller's decision, else by an earlier one's.
func (p *pod) held() *model.Attachment {
	switch {
	case p.Unwritable != "" && len(p.Assigned) == 0:
		// Its node will not learn of its addresses: others get them.
		return nil
	case p.attachment != nil:
		return p.attachment
	case len(p.Assigned) > 0 && len(p.Assigned[0].Addresses) > 0:
		return &p.Assigned[0]
	}
	return nil
}

// keep checks that the pod can go on having what it has. It never gets other addresses while it lives: its
// containers would not learn of them.
func (s *Stage) keep(n *networks.Network, p *pod, a model.Attachment) (*model.Attachment, *model.Problem) {
	if a.NetworkUID != n.Model.UID {
		return nil, new(model.Problemf(model.ReasonNetworkReplaced,
			"the pod belongs to an earlier Network %q, which was deleted: delete the pod to attach it to the new one", n.Name))
	}
	pools := s.Subnets.Pools(n.Name, a.Subnet)
	if len(pools) == 0 {
		return nil, new(model.Problemf(model.ReasonSubnetNotFound,
			"the pod's subnet %q of Network %q is no longer served: restore it, or delete the pod to move it", a.Subnet, n.Name))
	}
	addresses := addressesOf(a)
	for i, address := range addresses {
		if problem := take(pools, (*ledger.Pool).Keep, address, ledger.Pod(p.Key), n.Name, a.Subnet); problem != nil {
			ledger.Release(pools, addresses[:i], ledger.Pod(p.Key))
			problem.Message += "; delete the pod to give it another address"
			return nil, problem
		}
	}
	// All but the addresses follows from them and the layout.
	kept := attachment(n, p, a.Subnet, addresses)
	return &kept, nil
}

// assign gives a pod that has nothing an interface.
func (s *Stage) assign(n *networks.Network, p *pod) (*model.Attachment, *model.Problem) {
	wish := p.NIC
	if n.Model.Type == model.Flat {
		wish = model.NICRequest{}
	}
	listed := n.Layout.Listed()
	candidates := listed
	if wish.Subnet != "" {
		subnet, ok := n.Layout.Subnet(wish.Subnet)
		if !ok || subnet.Former {
			return nil, new(model.Problemf(model.ReasonSubnetNotFound,
				"Network %q serves no subnet %q; it serves %s", n.Name, wish.Subnet, networks.Describe(listed)))
		}
		candidates = []compile.SubnetLayout{subnet}
	} else if wish.IP.IsValid() {
		candidates = nil
		for _, subnet := range listed {
			if subnetHolds(subnet, wish.IP) {
				candidates = []compile.SubnetLayout{subnet}
			}
		}
		if candidates == nil {
			return nil, new(model.Problemf(model.ReasonAddressOutsideSubnet,
				"address %s is outside of every subnet of Network %q: %s", wish.IP, n.Name, networks.Describe(listed)))
		}
	}
	for _, next := range []choose{s.Spare.Unnamed, s.Spare.Next} {
		for _, subnet := range candidates {
			addresses, problem := s.fill(n, p, subnet, wish.IP, next)
			if problem != nil {
				return nil, problem
			}
			if addresses != nil {
				a := attachment(n, p, subnet.Name, addresses)
				return &a, nil
			}
		}
	}
	return nil, new(model.Problemf(model.ReasonSubnetFull,
		"no address is free in %s of Network %q: delete pods or add a subnet", networks.Describe(candidates), n.Name))
}

// attachment writes down an interface; all of it follows from the pod, the layout and the addresses.
func attachment(n *networks.Network, p *pod, subnet string, addresses []netip.Addr) model.Attachment {
	a := model.Attachment{
		PodUID: p.UID, Interface: model.DefaultInterface, Network: n.Name, NetworkUID: n.Model.UID, Subnet: subnet,
		MAC: compile.PodMAC(p.UID, addresses),
	}
	layout, _ := n.Layout.Subnet(subnet)
	for _, addr := range addresses {
		for _, r := range layout.Ranges {
			if r.CIDR.Contains(addr) {
				a.Addresses = append(a.Addresses, netip.PrefixFrom(addr, r.CIDR.Bits()))
				a.Gateways = append(a.Gateways, r.Gateway)
			}
		}
	}
	return a
}

func subnetHolds(s compile.SubnetLayout, a netip.Addr) bool {
	return slices.ContainsFunc(s.Ranges, func(r compile.Range) bool { return r.CIDR.Contains(a) })
}

func firstMessage(problems []model.Problem) string {
	if len(problems) == 0 {
		return "it lists none"
	}
	return problems[0].Message
}
