package model

import "net/netip"

// ViewKey is what a namespace sees of a Network.
type ViewKey struct{ Namespace, Network string }

func (k ViewKey) String() string { return k.Namespace + "/" + k.Network }

// View is what a namespace may know of a Network: nothing in it is another namespace's.
type View struct {
	Type  NetworkType
	Phase Phase
	// Reason and Message are those of the Network's condition Ready, as far as they are not about others.
	Reason, Message string
	// Conflicts say what of the cluster's addresses pods cannot dial.
	Conflicts    []string
	Subnets      []ViewedSubnet
	ServiceCIDRs []netip.Prefix
	Egress       Egress
	Infra        InfraAccess
	DNS          DNSMode
	// Pods counts the namespace's pods that hold an address, Waiting those without a port.
	Pods, Waiting int64
	// Addresses are of the first pods by name, at most MaxViewed.
	Addresses []ViewedPod
}

// MaxViewed is how many pods a View lists: it is written again when one of them comes or goes.
const MaxViewed = 100

// ViewedSubnet is one range of a subnet, and how many of its addresses the namespace's pods hold.
type ViewedSubnet struct {
	Name    string
	CIDR    netip.Prefix
	Gateway netip.Addr
	Used    int64
}

// ViewedPod is a pod with its own addresses.
type ViewedPod struct {
	Name, Subnet string
	Addresses    []netip.Addr
}
