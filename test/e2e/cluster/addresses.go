package cluster

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

// NodeAddresses are a node's InternalIPs, IPv4 first.
func (c *Cluster) NodeAddresses(t *testing.T, name string) []netip.Addr {
	t.Helper()
	node, err := c.Clients.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var addresses []netip.Addr
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			addresses = append(addresses, netip.MustParseAddr(address.Address))
		}
	}
	if len(addresses) != 2 || !addresses[0].Is4() || !addresses[1].Is6() {
		t.Fatalf("%s has addresses %v, want one of each family", name, addresses)
	}
	return addresses
}

// GivenTo is what the controller gave a node.
func (c *Cluster) GivenTo(t *testing.T, name string) *model.NodeNetwork {
	t.Helper()
	node, err := c.Clients.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := intake.NodeNetwork(node.Annotations[model.AnnotationNode], string(node.UID))
	if given == nil || len(given.Addresses) == 0 {
		t.Fatalf("%s has been given %+v", name, given)
	}
	return given
}

// AddressesOf are a node's addresses in the default Network.
func AddressesOf(node *model.NodeNetwork) []netip.Addr {
	var out []netip.Addr
	for _, p := range node.Addresses {
		out = append(out, p.Addr())
	}
	return out
}

// APIServer is where an API server is really reached.
func (c *Cluster) APIServer(t *testing.T) netip.AddrPort {
	t.Helper()
	endpoints, err := c.Clients.Kube.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(endpoints.Endpoints[0].Addresses[0]), uint16(*endpoints.Ports[0].Port))
}

// DialFrom connects from a place's network.
func (c *Cluster) DialFrom(ctx context.Context, from, network, address string) (conn net.Conn, err error) {
	err = place.InNamespace(c.Box.Namespace(from), func() (err error) {
		conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
