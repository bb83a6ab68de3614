package cases

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// The Networks of all cases.
const (
	// Default is of type flat.
	Default = "default"
	// Red and Blue are of type vpc and have the same subnets.
	Red  = "red"
	Blue = "blue"
)

// DNSNamespace is where the cluster's DNS is, as Service dns.
const DNSNamespace = "lab"

// NetworkNames are the names of all.
func NetworkNames() []string { return []string{Default, Red, Blue} }

// UID is that of an object of a case: the same in each.
func UID(kind, name string) types.UID { return types.UID(kind + "/" + name) }

// Node names.
const (
	Node1 = "n1"
	Node2 = "n2"
)

// Nodes are the nodes of all cases.
func Nodes() []corev1.Node {
	node := func(name, v4, v6 string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: UID("node", name), Labels: map[string]string{"kubernetes.io/hostname": name},
		}}
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: v4}, {Type: corev1.NodeInternalIP, Address: v6},
		}
		return n
	}
	return []corev1.Node{node(Node1, "192.0.2.11", "2001:db8::11"), node(Node2, "192.0.2.12", "2001:db8::12")}
}

// NodeAddresses are a node's in the default Network, by which it reaches pods.
func NodeAddresses(node string) [2]netip.Prefix {
	if node == Node1 {
		return [2]netip.Prefix{netip.MustParsePrefix("10.128.0.251/24"), netip.MustParsePrefix("fd00:128::251/64")}
	}
	return [2]netip.Prefix{netip.MustParsePrefix("10.128.0.252/24"), netip.MustParsePrefix("fd00:128::252/64")}
}

// FaceBlocks are where the faces of a node's pods come from.
func FaceBlocks(node string) [2]netip.Prefix {
	if node == Node1 {
		return [2]netip.Prefix{netip.MustParsePrefix("100.64.0.0/23"), netip.MustParsePrefix("fd64:a701::/119")}
	}
	return [2]netip.Prefix{netip.MustParsePrefix("100.64.2.0/23"), netip.MustParsePrefix("fd64:a701::200/119")}
}

// OwnNodeAddresses are those under which a node's pods in a Network of type vpc see it.
func OwnNodeAddresses() [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr("169.254.100.5"), netip.MustParseAddr("fdd7:5e3c:91a4::a702:1")}
}

// Subnet is a subnet of a Network.
type Subnet struct {
	Name string
	// Ranges: one of IPv4, one of IPv6. The first address of each is the gateway's.
	Ranges [2]netip.Prefix
}

// Subnets are those of a Network.
func Subnets(network string) []Subnet {
	subnet := func(name, v4, v6 string) Subnet {
		return Subnet{name, [2]netip.Prefix{netip.MustParsePrefix(v4), netip.MustParsePrefix(v6)}}
	}
	if network == Default {
		return []Subnet{subnet("pods", "10.128.0.0/24", "fd00:128::/64")}
	}
	return []Subnet{subnet("front", "10.0.0.0/24", "fd00:10::/64"), subnet("back", "10.0.1.0/24", "fd00:11::/64")}
}

// SubnetOf finds the subnet that an address is of; false for an address outside of the Network.
func SubnetOf(network string, a netip.Addr) (Subnet, bool) {
	for _, s := range Subnets(network) {
		if s.Ranges[0].Contains(a) || s.Ranges[1].Contains(a) {
			return s, true
		}
	}
	return Subnet{}, false
}

// Networks are the objects.
func Networks() []v1alpha1.Network {
	var out []v1alpha1.Network
	for _, name := range NetworkNames() {
		kind := v1alpha1.NetworkVPC
		if name == Default {
			kind = v1alpha1.NetworkFlat
		}
		n := v1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: UID("network", name)},
			Spec:       v1alpha1.NetworkSpec{Type: kind, AllowedNamespaces: &metav1.LabelSelector{}},
		}
		for _, s := range Subnets(name) {
			n.Spec.Subnets = append(n.Spec.Subnets, v1alpha1.Subnet{Name: s.Name, CIDRs: []v1alpha1.CIDR{
				v1alpha1.CIDR(s.Ranges[0].String()), v1alpha1.CIDR(s.Ranges[1].String()),
			}})
		}
		out = append(out, n)
	}
	return out
}
