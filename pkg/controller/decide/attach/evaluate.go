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

// evaluate decides where a pod belongs and whether it may be there, and brings graph and sink in line.
//
// A pod that has addresses holds them for as long as it lives, even while it may not use them: its containers
// know no others, and nobody else shall have them when it may again.
func (s *Stage) evaluate(p *pod) {
	ns := s.Cluster.Namespaces[p.Key.Namespace]
	s.Faces.Waiting.Drop(p.faced, p.Key)
	if p.Unwritable != "" && len(p.Assigned) == 0 && p.attachment != nil {
		// Its node will not learn of its addresses: others get them.
		s.leave(p)
	}
	if ns == nil && p.held() == nil {
		// Its namespace's own notice is under way, or it is being deleted.
		s.leave(p)
		return
	}
	wish := s.choose(p, ns)
	n := s.Networks.Get(wish.network)
	granted := s.Networks.Admits(wish.network, ns)
	if p.held() == nil && granted && s.needsFaces(n) && !s.Nodes.Serves(p.Node) {
		s.leave(p)
		s.awaitNode(p)
		// It is nothing to the Network yet, and looked at again when that changes.
		p.network, s.book(wish.network).strangers[p.Key] = wish.network, struct{}{}
		return
	}
	if wish.network != p.network {
		s.leave(p)
		p.network = wish.network
	}
	attachment, problem := s.addresses(n, p, ns, wish)
	seen := true
	if attachment != nil {
		var unseen *model.Problem
		seen, unseen = s.face(n, p, attachment)
		problem = cmp.Or(problem, unseen)
		if unseen != nil && p.held() == nil {
			// It was never told of its addresses: it holds nothing.
			ledger.Release(s.Subnets.Pools(n.Name, attachment.Subnet), addressesOf(*attachment), ledger.Pod(p.Key))
		} else {
			p.attachment = attachment
		}
	} else if p.attachment == nil && len(p.Assigned) > 0 {
		// What an earlier controller gave it is not served now; it holds the rest, as if this one had given it.
		s.holdFaces(n, p)
	}
	s.count(n, p)
	if problem != nil {
		if granted && s.needsFaces(n) {
			// Without its node it waits for that.
			s.awaitNode(p)
			if problem.Reason == model.ReasonNoFaces || problem.Reason == model.ReasonFaceLost {
				s.Faces.Waiting.Add(p.Node, p.Key)
			}
		}
		s.refuse(p, *problem)
		return
	}
	if ns == nil || !seen {
		// Its namespace's notice is under way, or its node's.
		s.unplug(p)
		if s.clear(p) {
			s.MembersChanged.Changed(p.network)
		}
		p.problem = nil
		return
	}
	s.plug(p)
}

// choice is a pod's Network and who chose it.
type choice struct {
	network string
	chooser networks.Chooser
}

// choose finds the Network of a pod: where it already is, else its own choice, else its namespace's home. It is fixed once the pod has addresses: what a label says later does not move it.
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

// count enters a pod that has addresses of the Network into its book, whether it may use them or not.
func (s *Stage) count(n *networks.Network, p *pod) {
	a := p.held()
	if a == nil || n == nil || a.NetworkUID != n.Model.UID {
		return
	}
	b := s.book(n.Name)
	if _, had := b.Attached[p.Key]; !had {
		b.Attached[p.Key] = struct{}{}
		s.MembersChanged.Changed(n.Name)
		s.Changed.Changed(Place{p.Key, n.Name})
	}
	if p.Beyond {
		// Whether its namespace is infrastructure, may have changed.
		b.Beyond.Add(p.Key.Namespace, p.Key)
		s.MembersChanged.Changed(n.Name)
	} else {
		b.Beyond.Drop(p.Key.Namespace, p.Key)
	}
}

// plug gives a pod its port.
func (s *Stage) plug(p *pod) {
	if !p.plugged || p.problem != nil {
		s.MembersChanged.Changed(p.network)
		s.Changed.Changed(Place{p.Key, p.network})
		s.Plugged.Changed(p.Key)
		for _, face := range p.attachment.Faces {
			s.FaceGiven.Changed(face)
		}
	}
	s.clear(p)
	if !p.plugged && len(p.Assigned) == 0 {
		s.unwritten[p.Key] = s.Database.Now
	}
	p.problem, p.plugged = nil, true
	s.PortChanged.Changed(p.Key)
	if len(p.Assigned) != 1 || !reflect.DeepEqual(p.Assigned[0], *p.attachment) {
		s.Sink.WriteAttachments(p.Key, p.UID, []model.Attachment{*p.attachment})
	}
}

// unplug takes a pod's port.
func (s *Stage) unplug(p *pod) {
	if p.plugged {
		s.MembersChanged.Changed(p.network)
		s.Plugged.Changed(p.Key)
		s.PortChanged.Changed(p.Key)
	}
	p.plugged = false
	delete(s.unwritten, p.Key)
	delete(s.Members(p.network).Denied, p.Key)
}

// refuse takes a pod's port and says why. A stranger is told so itself, and the Network is not: anybody may name
// any Network, whether it exists or not.
func (s *Stage) refuse(p *pod, problem model.Problem) {
	s.unplug(p)
	if p.problem == nil || *p.problem != problem {
		s.Sink.PodEvent(p.Key, p.UID, problem)
	}
	if s.clear(p) {
		s.MembersChanged.Changed(p.network)
	}
	p.problem = &problem
	s.Changed.Changed(Place{p.Key, p.network})
	b := s.book(p.network)
	if problem.Reason == model.ReasonNetworkNotFound && p.attachment == nil {
		b.strangers[p.Key] = struct{}{}
		return
	}
	b.Failing[p.Key] = problem
	s.MembersChanged.Changed(p.network)
	if problem.Reason == model.ReasonSubnetFull || problem.Reason == model.ReasonAddressInUse {
		s.Subnets.Waiting.Add(p.network, p.Key)
	}
}

// clear takes a pod out of the book of those without a port; it reports whether its Network's status named the pod.
func (s *Stage) clear(p *pod) bool {
	s.Subnets.Waiting.Drop(p.network, p.Key)
	b := s.books[p.network]
	if b == nil {
		return false
	}
	_, failed := b.Failing[p.Key]
	delete(b.Failing, p.Key)
	delete(b.strangers, p.Key)
	return failed
}

// leave takes a pod out of its Network: its port, its addresses and its name in the book.
func (s *Stage) leave(p *pod) {
	s.unface(p)
	network := p.network
	if network == "" {
		return
	}
	s.unplug(p)
	s.Sink.Forget(p.Key)
	if p.attachment != nil {
		addresses := addressesOf(*p.attachment)
		s.Subnets.Release(network, p.attachment.Subnet, addresses, ledger.Pod(p.Key))
		s.Catalog.Free(addresses, s.freed(p))
	}
	s.clear(p)
	members := s.Members(network)
	delete(members.Attached, p.Key)
	members.Beyond.Drop(p.Key.Namespace, p.Key)
	s.closeBook(network)
	s.MembersChanged.Changed(network)
	s.Changed.Changed(Place{p.Key, network})
	p.network, p.problem, p.attachment = "", nil, nil
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
	if !p.plugged || len(now.Assigned) != 1 || !reflect.DeepEqual(now.Assigned[0], *p.attachment) {
		return false
	}
	before := *now
	before.Assigned = p.Assigned
	return reflect.DeepEqual(before, *p.Pod)
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
		return kept, refuse(model.ReasonNamespaceNotAllowed, "Network %q, where the pod has its addresses, no longer admits namespace %q: ask whoever runs the cluster, or delete the pod to attach it elsewhere", n.Name, ns.Name)
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
	if p.attachment != nil {
		return p.attachment
	}
	if len(p.Assigned) > 0 && len(p.Assigned[0].Addresses) > 0 {
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
