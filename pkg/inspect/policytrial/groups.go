package policytrial

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// maxOf bounds how many pods of a group are compiled: what a pod and another one of its group have with each other needs two.
const maxOf = 2

// kin is a group of pods, and those of them that are compiled.
type kin struct {
	Group
	target match.Target
	pods   []*model.Pod
}

// asks are what the policies of some Networks ask of pods, addresses and nodes.
type asks struct {
	policies []*model.Policy
	// labels are the keys of pods' labels, nodeLabels those of nodes', names those of ports.
	labels, nodeLabels, names map[string]bool
	blocks                    []model.Block
}

func asksOf(policies []*model.Policy) asks {
	out := asks{policies: policies, labels: map[string]bool{}, nodeLabels: map[string]bool{}, names: map[string]bool{}}
	keys := func(s match.Selector, into map[string]bool) {
		for _, r := range s.Requirements {
			into[r.Key] = true
		}
	}
	blocks := map[string]model.Block{}
	for _, p := range policies {
		keys(p.Subject.Labels, out.labels)
		for _, r := range slices.Concat(p.Rules[:]...) {
			for _, port := range r.Ports {
				if port.Name != "" {
					out.names[port.Name] = true
				}
			}
			for _, peer := range r.Peers {
				switch {
				case peer.Pods != nil:
					keys(peer.Pods.Labels, out.labels)
				case peer.Nodes != nil:
					keys(*peer.Nodes, out.nodeLabels)
				case peer.Block != nil:
					blocks[peer.Block.String()] = *peer.Block
				}
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(blocks)) {
		out.blocks = append(out.blocks, blocks[text])
	}
	return out
}

// held says which blocks hold addresses, and which leave them out, as text: who has the same is the same to all blocks.
func (a asks) held(key *strings.Builder, addresses []netip.Addr) {
	for _, address := range addresses {
		fmt.Fprintf(key, "|%t", address.Is4())
		for _, b := range a.blocks {
			switch {
			case !b.CIDR.Contains(address):
				key.WriteByte('.')
			case b.Contains(address):
				key.WriteByte('+')
			default:
				key.WriteByte('-')
			}
		}
	}
}

// asked writes those of some labels that are asked for.
func asked(key *strings.Builder, labels map[string]string, wanted map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, has := labels[name]
		fmt.Fprintf(key, "|%t%s", has, value)
	}
}

// kins are the groups of some pods, in the order of their first pods. answering are pods that answer for names in place of the
// cluster's DNS.
func (a asks) kins(
	pods []*model.Pod, namespaces map[string]*model.Namespace, answering map[model.PodKey]bool, spend func(int) error,
) ([]*kin, error) {
	known := map[string]*kin{}
	var out []*kin
	for _, p := range pods {
		if err := spend(1 + len(a.blocks)/trace.ValuesOfWork); err != nil {
			return nil, err
		}
		at := p.Assigned[0]
		var key strings.Builder
		fmt.Fprintf(&key, "%s|%s|%t", at.Network, p.Key.Namespace, answering[p.Key])
		asked(&key, p.Labels, a.labels)
		for _, port := range p.Ports {
			if a.names[port.Name] {
				fmt.Fprintf(&key, "|%s %s %d", port.Name, port.Protocol, port.Port)
			}
		}
		addresses := slices.Clone(at.Faces)
		for _, own := range at.Addresses {
			addresses = append(addresses, own.Addr())
		}
		a.held(&key, addresses)
		k := known[key.String()]
		if k == nil {
			k = &kin{
				Group: Group{Kind: Pods, Network: at.Network, Namespace: p.Key.Namespace, Labels: maps.Clone(p.Labels)}, target: targetOf(p,
					namespaces),
			}
			known[key.String()] = k
			out = append(out, k)
		}
		k.Pods = append(k.Pods, p.Key)
		maps.DeleteFunc(k.Labels, func(name, value string) bool { return p.Labels[name] != value })
		switch {
		case len(k.pods) < maxOf:
			k.pods = append(k.pods, p)
		case k.pods[0].Node == k.pods[1].Node && p.Node != k.pods[0].Node:
			// On two nodes, so that each is another one to one of them.
			k.pods[1] = p
		}
	}
	return out, nil
}

func targetOf(p *model.Pod, namespaces map[string]*model.Namespace) match.Target {
	t := match.Target{Namespace: p.Key.Namespace, Labels: p.Labels}
	if ns := namespaces[p.Key.Namespace]; ns != nil {
		t.NamespaceLabels = ns.Labels
	}
	return t
}

// machines is a group of nodes.
type machines struct {
	Group
	nodes []*model.Node
}

// machines are the groups of all nodes, in the order of their first ones.
func (a asks) machines(nodes map[string]*model.Node) []*machines {
	known := map[string]*machines{}
	var out []*machines
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		var key strings.Builder
		asked(&key, n.Labels, a.nodeLabels)
		a.held(&key, n.Addresses)
		if n.Assigned != nil {
			for _, own := range n.Assigned.Addresses {
				a.held(&key, []netip.Addr{own.Addr()})
			}
		}
		m := known[key.String()]
		if m == nil {
			m = &machines{Group: Group{Kind: Nodes}}
			known[key.String()] = m
			out = append(out, m)
		}
		m.Nodes, m.nodes = append(m.Nodes, name), append(m.nodes, n)
	}
	return out
}
