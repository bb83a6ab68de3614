package oracle

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// ICMP stands for the protocols that have no ports and that no policy can name: ICMP, or ICMPv6.
const ICMP corev1.Protocol = "ICMP"

// Cluster is what a packet is judged by.
type Cluster struct {
	Nodes           []corev1.Node                         `json:"nodes,omitempty"`
	Namespaces      []corev1.Namespace                    `json:"namespaces,omitempty"`
	Pods            []Pod                                 `json:"pods,omitempty"`
	Policies        []netv1.NetworkPolicy                 `json:"policies,omitempty"`
	ClusterPolicies []policyv1alpha2.ClusterNetworkPolicy `json:"clusterPolicies,omitempty"`
	// Compatible says which Networks' pods reach those of others. Each is of type vpc.
	Compatible []Compatibility `json:"compatible,omitempty"`
	// Doors are in every Network of type vpc.
	Doors []Door `json:"doors,omitempty"`
	// Resolvers answer questions for names in their Networks, in place of the door to the DNS.
	Resolvers []Resolver `json:"resolvers,omitempty"`
}

// Resolver is a Service of a Network that answers its questions for names (dns.mode: service).
type Resolver struct {
	Network string `json:"network"`
	// Service is namespace/name; Pods are behind it, each namespace/name, and TargetPort is the port of each.
	Service    string          `json:"service"`
	Protocol   corev1.Protocol `json:"protocol"`
	Pods       []string        `json:"pods"`
	TargetPort uint16          `json:"targetPort"`
}

// Door is an address outside of a Network that stands for what users' rules call by other names: the cluster's DNS, which
// is pods of another Network, or the Kubernetes API, which has its servers' addresses.
type Door struct {
	Address  netip.Addr      `json:"address"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     uint16          `json:"port"`
	// Pods are behind the door, each namespace/name, and TargetPort is the port of each; or Servers are, of one port.
	Pods       []string         `json:"pods,omitempty"`
	TargetPort uint16           `json:"targetPort,omitempty"`
	Servers    []netip.AddrPort `json:"servers,omitempty"`
}

// Pod is a pod and its place.
type Pod struct {
	corev1.Pod
	// Network is the one that the pod is in. Empty while it is in none: it uses its node's own network, has finished, or
	// has no address yet.
	Network string `json:"network,omitempty"`
	// Addresses are the pod's own in that Network, at most one per IP family.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Faces are those that Kubernetes' API shows for a pod of a Network of type vpc (status.podIPs).
	Faces []netip.Addr `json:"faces,omitempty"`
}

// Key names the pod: namespace/name.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// Packet is the first one of a connection. Those that follow, in both directions, share its fate.
type Packet struct {
	// Network is where it travels.
	Network string `json:"network"`
	From    End    `json:"from"`
	// To is where it ends up: behind a Service, the endpoint that was chosen.
	To       End             `json:"to"`
	Protocol corev1.Protocol `json:"protocol"`
	// Port is that of the destination, again behind a Service; 0 for ICMP.
	Port uint16 `json:"port,omitempty"`
}

// End is one end of a connection.
type End struct {
	// Pod is the pod of the packet's Network, namespace/name; empty for anything else.
	Pod string `json:"pod,omitempty"`
	// Node is set when the node itself is the end: kubelet, or a pod on the node's own network.
	Node string `json:"node,omitempty"`
	// Address is what stands in the packet. A pod of a Network has its own address there.
	Address netip.Addr `json:"address"`
}

func (c Cluster) namespace(name string) (corev1.Namespace, bool) {
	i := slices.IndexFunc(c.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == name })
	if i < 0 {
		return corev1.Namespace{}, false
	}
	return c.Namespaces[i], true
}

// podAt is the pod of a Network at an end; nil when no pod is there. That another Network has a pod of the same address is
// none of its concern.
func (c Cluster) podAt(network string, e End) *Pod {
	i := slices.IndexFunc(c.Pods, func(p Pod) bool { return p.Key() == e.Pod && p.Network == network && network != "" })
	if i < 0 {
		return nil
	}
	return &c.Pods[i]
}
