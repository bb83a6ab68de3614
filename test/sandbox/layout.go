package sandbox

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"path/filepath"
)

// layout tells where things are in the state directory.
type layout struct{ state string }

func (l layout) record() string                { return filepath.Join(l.state, "sandbox.json") }
func (l layout) pki() string                   { return filepath.Join(l.state, "pki") }
func (l layout) logs() string                  { return filepath.Join(l.state, "log") }
func (l layout) kubeconfig(user string) string { return filepath.Join(l.state, "kubeconfig", user) }
func (l layout) kubectlCache() string          { return filepath.Join(l.state, "kubeconfig", "cache") }
func (l layout) place(name string) string      { return filepath.Join(l.state, "places", name) }
func (l layout) in(place, what string) string  { return filepath.Join(l.place(place), what) }
func (l layout) control(place string) string   { return l.in(place, "control.sock") }
func (l layout) log(place, daemon string) string {
	return filepath.Join(l.logs(), place+"-"+daemon+".log")
}

// Addresses of the sandbox. They exist in its namespaces only, so that they may be anything.
var (
	// nodeNet is where the nodes and the control plane talk Kubernetes and OVSDB; the control plane is .1.
	nodeNet = netip.MustParsePrefix("172.30.0.0/24")
	// nodeNet6 is the same in IPv6. The nodes have both; the control plane is reached by IPv4 only.
	nodeNet6 = netip.MustParsePrefix("fd00:172:30::/64")
	// tunnelNet carries Geneve, on interfaces of its own: a node whose switch is down stays in the cluster.
	tunnelNet = netip.MustParsePrefix("172.31.0.0/24")
	// serviceNet and serviceNet6 are the ranges of cluster IPs. A Service is IPv4 unless it asks.
	serviceNet  = netip.MustParsePrefix("10.96.0.0/16")
	serviceNet6 = netip.MustParsePrefix("fd00:10:96::/112")
	// clusterDNS is where pods look for names.
	clusterDNS = netip.MustParseAddr("10.96.0.10")
)

const (
	// underlayMTU leaves pods 1542 bytes below the 58 of Geneve.
	underlayMTU = 1600
	apiPort     = 6443
)

// node is one node's name and addresses.
type node struct {
	index int
	name  string
}

func nodeAt(index int) node { return node{index: index, name: fmt.Sprintf("n%d", index)} }

func nodesUpTo(count int) []node {
	nodes := make([]node, count)
	for i := range nodes {
		nodes[i] = nodeAt(i + 1)
	}
	return nodes
}

// address is the node's InternalIP.
func (n node) address() netip.Addr { return hostIn(nodeNet, 10+n.index) }

// address6 is its IPv6 InternalIP.
func (n node) address6() netip.Addr { return hostIn6(nodeNet6, 10+n.index) }

// tunnel is the node's Geneve address with the prefix length of its network.
func (n node) tunnel() netip.Prefix {
	return netip.PrefixFrom(hostIn(tunnelNet, 10+n.index), tunnelNet.Bits())
}

func centralAddress() netip.Addr { return hostIn(nodeNet, 1) }

func apiServer() string { return "https://" + netip.AddrPortFrom(centralAddress(), apiPort).String() }

// hostIn returns the address of that number in an IPv4 network of 254 hosts.
func hostIn(network netip.Prefix, number int) netip.Addr {
	octets := network.Addr().As4()
	octets[3] = byte(number)
	return netip.AddrFrom4(octets)
}

// hostIn6 returns the address of that number, below 65536, in an IPv6 network.
func hostIn6(network netip.Prefix, number int) netip.Addr {
	octets := network.Addr().As16()
	binary.BigEndian.PutUint16(octets[14:], uint16(number))
	return netip.AddrFrom16(octets)
}

// namespace is the name of a place's network namespace.
func namespace(sandbox, place string) string { return sandbox + "-" + place }
