package controller

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// evaluate decides where a pod belongs and whether it may be there, and brings graph and sink in line.
//
// A pod that has addresses holds them for as long as it lives, even while it may not use them: its containers
// know no others, and nobody else shall have them when it may again.
func (s *State) evaluate(p *pod) {
	ns := s.namespaces[p.Key.Namespace]
	if n := s.nodes[p.faced]; n != nil {
		delete(n.short, p.Key)
	}
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
	name := wish.network
	if p.held() == nil && s.grants(name, ns) && !s.canFace(name, p) {
		s.leave(p)
		s.awaitNode(p)
		// It is nothing to the Network yet, and looked at again when that changes.
		p.network, s.network(name).strangers[p.Key] = name, struct{}{}
		return
	}
	if name != p.network {
		s.leave(p)
		p.network = name
	}
	n := s.network(name)
	attachment, problem := s.addresses(n, p, ns, wish)
	seen := true
	if attachment != nil {
		var unseen *model.Problem
		seen, unseen = s.face(n, p, attachment)
		problem = cmp.Or(problem, unseen)
		if unseen != nil && p.held() == nil {
			// It was never told of its addresses: it holds nothing.
			freeAll(n.pools[attachment.Subnet], addressesOf(*attachment), p)
		} else {
			p.attachment = attachment
		}
	} else if p.attachment == nil && len(p.Assigned) > 0 {
		// What an earlier controller gave it is not served now; it holds the rest, as if this one had given it.
		s.holdFaces(n, p)
	}
	s.count(n, p)
	if problem != nil {
		if s.grants(name, ns) && s.needsFaces(n) {
			// Without its node it waits for that.
			s.awaitNode(p)
			if problem.Reason == model.ReasonNoFaces || problem.Reason == model.ReasonFaceLost {
				s.node(p.Node).short[p.Key] = struct{}{}
			}
		}
		s.refuse(n, p, *problem)
		return
	}
	if ns == nil || !seen {
		// Its namespace's notice is under way, or its node's.
		s.unplug(n, p)
		if n.clear(p.Key) {
			s.touched[n.name] = struct{}{}
		}
		p.problem = nil
		return
	}
	s.plug(n, p, ns)
}

// count enters a pod that has addresses of the Network into its books, whether it may use them or not.
func (s *State) count(n *network, p *pod) {
	a := p.held()
	if a == nil || n.model == nil || a.NetworkUID != n.model.UID {
		return
	}
	if _, had := n.attached[p.Key]; !had {
		n.attached[p.Key] = struct{}{}
		s.touched[n.name] = struct{}{}
		s.views.touchPod(p.Key, n.name)
	}
}

// plug gives a pod its port.
func (s *State) plug(n *network, p *pod, ns *model.Namespace) {
	if !p.plugged || p.problem != nil {
		s.touched[n.name] = struct{}{}
		s.views.touchPod(p.Key, n.name)
		s.services.touchPod(p.Key)
		s.services.touchFaces(p.attachment.Faces)
	}
	n.clear(p.Key)
	if !p.plugged && len(p.Assigned) == 0 {
		s.knowledge.unwritten[p.Key] = s.knowledge.now
	}
	p.problem, p.plugged = nil, true
	// Its rows are written down in givePlaces.
	s.enter(p, ns)
	if len(p.Assigned) != 1 || !reflect.DeepEqual(p.Assigned[0], *p.attachment) {
		s.sink.WriteAttachments(p.Key, p.UID, []model.Attachment{*p.attachment})
	}
}

// unplug takes a pod's port.
func (s *State) unplug(n *network, p *pod) {
	if p.plugged {
		s.touched[n.name] = struct{}{}
		s.services.touchPod(p.Key)
	}
	p.plugged = false
	delete(s.knowledge.unwritten, p.Key)
	s.exit(p.Key)
	delete(n.deniedPods, p.Key)
	s.graph.Delete(nb.PodOwner(p.Key.Namespace, p.Key.Name))
}

// refuse takes a pod's port and says why. A stranger is told so itself, and the Network is not: anybody may name
// any Network, whether it exists or not.
func (s *State) refuse(n *network, p *pod, problem model.Problem) {
	s.unplug(n, p)
	if p.problem == nil || *p.problem != problem {
		s.sink.PodEvent(p.Key, p.UID, problem)
	}
	if n.clear(p.Key) {
		s.touched[n.name] = struct{}{}
	}
	p.problem = &problem
	s.views.touchPod(p.Key, n.name)
	if problem.Reason == model.ReasonNetworkNotFound && p.attachment == nil {
		n.strangers[p.Key] = struct{}{}
		return
	}
	n.failing[p.Key] = problem
	s.touched[n.name] = struct{}{}
	if problem.Reason == model.ReasonSubnetFull || problem.Reason == model.ReasonAddressInUse {
		n.waiting[p.Key] = struct{}{}
	}
}

// clear takes a pod out of the books of those without a port; it reports whether its status named the pod.
func (n *network) clear(key model.PodKey) bool {
	_, failed := n.failing[key]
	delete(n.failing, key)
	delete(n.waiting, key)
	delete(n.strangers, key)
	return failed
}

// leave takes a pod out of its Network: its port, its addresses and its name in the books.
func (s *State) leave(p *pod) {
	s.unface(p)
	n := s.networks[p.network]
	if n == nil || p.network == "" {
		return
	}
	s.unplug(n, p)
	s.sink.Forget(p.Key)
	if p.attachment != nil {
		freeAll(n.pools[p.attachment.Subnet], addressesOf(*p.attachment), p)
		s.freed[n.name] = struct{}{}
	}
	n.clear(p.Key)
	delete(n.attached, p.Key)
	s.touched[n.name] = struct{}{}
	s.views.touchPod(p.Key, n.name)
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
func (s *State) addresses(n *network, p *pod, ns *model.Namespace, wish choice) (*model.Attachment, *model.Problem) {
	refuse := func(reason, format string, args ...any) *model.Problem {
		return &model.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	var kept *model.Attachment
	if a := p.held(); a != nil && n.model != nil {
		var problem *model.Problem
		if kept, problem = n.keep(p, *a); problem != nil {
			return nil, problem
		}
	}
	switch {
	case kept == nil && !s.grants(n.name, ns):
		return nil, s.notFound(wish, ns)
	case ns == nil:
		return kept, nil
	case !n.admits(*ns):
		return kept, refuse(model.ReasonNamespaceNotAllowed, "Network %q, where the pod has its addresses, no longer admits namespace %q: ask whoever runs the cluster, or delete the pod to attach it elsewhere", n.name, ns.Name)
	case kept != nil:
		return kept, nil
	case p.Unwritable != "":
		return nil, refuse(model.ReasonAnnotationRefused, "%s", p.Unwritable)
	case p.NICError != "" && n.model.Type == model.VPC:
		return nil, refuse(model.ReasonInvalidNICs, "%s", p.NICError)
	case n.model.Deleting:
		return nil, refuse(model.ReasonNetworkTerminating, "Network %q is being deleted", n.name)
	case len(n.layout.Listed()) == 0:
		return nil, refuse(model.ReasonNetworkInvalid, "Network %q serves no subnet: %s", n.name, firstMessage(n.problems))
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
func (n *network) keep(p *pod, a model.Attachment) (*model.Attachment, *model.Problem) {
	if a.NetworkUID != n.model.UID {
		return nil, &model.Problem{
			Reason:  model.ReasonNetworkReplaced,
			Message: fmt.Sprintf("the pod belongs to an earlier Network %q, which was deleted: delete the pod to attach it to the new one", n.name),
		}
	}
	pools := n.pools[a.Subnet]
	if len(pools) == 0 {
		return nil, &model.Problem{
			Reason:  model.ReasonSubnetNotFound,
			Message: fmt.Sprintf("the pod's subnet %q of Network %q is no longer served: restore it, or delete the pod to move it", a.Subnet, n.name),
		}
	}
	addresses := addressesOf(a)
	for i, address := range addresses {
		if problem := take(pools, (*alloc.Pool).Keep, address, p.Key.String(), n.name, a.Subnet); problem != nil {
			freeAll(pools, addresses[:i], p)
			problem.Message += "; delete the pod to give it another address"
			return nil, problem
		}
	}
	// All but the addresses follows from them and the layout.
	kept := n.attachment(p, a.Subnet, addresses)
	return &kept, nil
}

// assign gives a pod that has nothing an interface.
func (s *State) assign(n *network, p *pod) (*model.Attachment, *model.Problem) {
	wish := p.NIC
	if n.model.Type == model.Flat {
		wish = model.NICRequest{}
	}
	listed := n.layout.Listed()
	candidates := listed
	if wish.Subnet != "" {
		subnet, ok := n.layout.Subnet(wish.Subnet)
		if !ok || subnet.Former {
			return nil, &model.Problem{
				Reason:  model.ReasonSubnetNotFound,
				Message: fmt.Sprintf("Network %q serves no subnet %q; it serves %s", n.name, wish.Subnet, names(listed)),
			}
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
			return nil, &model.Problem{
				Reason:  model.ReasonAddressOutsideSubnet,
				Message: fmt.Sprintf("address %s is outside of every subnet of Network %q: %s", wish.IP, n.name, names(listed)),
			}
		}
	}
	for _, subnet := range candidates {
		addresses, problem := s.fill(n, p, subnet, wish.IP)
		if problem != nil {
			return nil, problem
		}
		if addresses != nil {
			a := n.attachment(p, subnet.Name, addresses)
			return &a, nil
		}
	}
	return nil, &model.Problem{
		Reason:  model.ReasonSubnetFull,
		Message: fmt.Sprintf("no address is free in %s of Network %q: delete pods or add a subnet", names(candidates), n.name),
	}
}

// attachment writes down an interface; all of it follows from the pod, the layout and the addresses.
func (n *network) attachment(p *pod, subnet string, addresses []netip.Addr) model.Attachment {
	a := model.Attachment{
		PodUID: p.UID, Interface: model.DefaultInterface, Network: n.name, NetworkUID: n.model.UID, Subnet: subnet,
		MAC: compile.PodMAC(p.UID, addresses),
	}
	layout, _ := n.layout.Subnet(subnet)
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

func freeAll(pools []*alloc.Pool, addresses []netip.Addr, p *pod) {
	for _, a := range addresses {
		for _, pool := range pools {
			pool.Release(a, p.Key.String())
		}
	}
}

func subnetHolds(s compile.SubnetLayout, a netip.Addr) bool {
	for _, r := range s.Ranges {
		if r.CIDR.Contains(a) {
			return true
		}
	}
	return false
}

func names(subnets []compile.SubnetLayout) string {
	var words []string
	for _, s := range subnets {
		var cidrs []string
		for _, r := range s.Ranges {
			cidrs = append(cidrs, r.CIDR.String())
		}
		words = append(words, fmt.Sprintf("%s (%s)", s.Name, strings.Join(cidrs, ", ")))
	}
	return strings.Join(words, ", ")
}

func firstMessage(problems []model.Problem) string {
	if len(problems) == 0 {
		return "it lists none"
	}
	return problems[0].Message
}
