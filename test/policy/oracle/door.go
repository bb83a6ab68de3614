package oracle

import (
	"net/netip"
	"slices"

	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Manifests keep their meaning inside a Network. A rule that means the cluster's DNS pods, or the addresses of the
// Kubernetes API's servers, means the door as well: that is where pods of the Network find them. Nobody can tell which of
// several pods or servers will answer, so a rule that lets through has to mean all of them, and one that denies any.

// behind is the packet as it would be without a door, once for each pod or server behind it; nothing if it goes to none.
//
// A pod behind a door is meant by its labels, not by its address, which nobody in this Network dials; one on its node's own
// network by the node's address, too. Where a Service of the Network answers questions for names, its pods are the door.
func (c Cluster) behind(t traffic) []traffic {
	if t.direction != Egress {
		return nil
	}
	var out []traffic
	resolved := c.resolves(t)
	for _, d := range c.Doors {
		dialled := t.peerPod == nil && d.Address == t.packet.To.Address && d.Protocol == t.packet.Protocol && d.Port == t.packet.Port
		answered := resolved && len(d.Pods) > 0 && d.Protocol == t.packet.Protocol && d.Address.Is4() == t.packet.To.Address.Is4()
		if !dialled && !answered {
			continue
		}
		for _, name := range d.Pods {
			i := slices.IndexFunc(c.Pods, func(p Pod) bool { return p.Key() == name })
			if i < 0 {
				continue
			}
			view := t
			view.peer, view.peerPod, view.target = End{Pod: name}, &c.Pods[i], &c.Pods[i]
			if c.Pods[i].Spec.HostNetwork {
				view.peer.Address, _ = netip.ParseAddr(c.Pods[i].Status.HostIP)
			}
			view.packet.Port = d.TargetPort
			out = append(out, view)
		}
		for _, server := range d.Servers {
			view := t
			view.peer, view.packet.Port = End{Address: server.Addr()}, server.Port()
			out = append(out, view)
		}
	}
	return out
}

// resolves reports whether a packet goes to a pod that answers its Network's questions for names.
func (c Cluster) resolves(t traffic) bool {
	return t.peerPod != nil && slices.ContainsFunc(c.Resolvers, func(r Resolver) bool {
		return r.Network == t.packet.Network && r.Protocol == t.packet.Protocol && r.TargetPort == t.packet.Port &&
			slices.Contains(r.Pods, t.peerPod.Key())
	})
}

// allows reports whether a rule of a NetworkPolicy, of that namespace, matches a packet or what is behind its door.
func (c Cluster) allows(namespace string, r namespacedRule, t traffic) bool {
	if c.matchNamespacedRule(namespace, r, t) {
		return true
	}
	views := c.behind(t)
	return len(views) > 0 && !slices.ContainsFunc(views, func(v traffic) bool { return !c.matchNamespacedRule(namespace, r, v) })
}

// decides is what a rule of a ClusterNetworkPolicy says to a packet, or to what is behind its door.
func (c Cluster) decides(r clusterRule, t traffic) match {
	found := c.matchClusterRule(r, t)
	if found != other {
		return found
	}
	var met int
	views := c.behind(t)
	for _, v := range views {
		if c.matchClusterRule(r, v) == matching {
			met++
		}
	}
	if r.action == policyv1alpha2.ClusterNetworkPolicyRuleActionDeny {
		return matchIf(met > 0)
	}
	return matchIf(met > 0 && met == len(views))
}
