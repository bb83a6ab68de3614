package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterPools is the name of the IPAM, and of the IPAMCheck, of addresses that belong to no Network: faces. No Network can be called so.
const ClusterPools = "system:cluster"

// IPAM tells of the addresses of a Network. Its name is the Network's, or ClusterPools.
type IPAM struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            IPAMStatus `json:"status"`
}

// IPAMList is a list of IPAMs. They are as in a list: without Holders, and without the Pools of nodes' blocks.
type IPAMList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPAM `json:"items"`
}

// IPAMStatus is what was found.
type IPAMStatus struct {
	// Tenant is whose the Network is; empty: the cluster's.
	Tenant string `json:"tenant,omitempty"`
	// Pools are the ranges that addresses are given of.
	Pools []AddressPool `json:"pools"`
	// Holders are those that have addresses, by these. Only the answer about one has them.
	Holders []Holder `json:"holders,omitempty"`
}

// PoolUse says what the addresses of a pool are for.
type PoolUse string

// The uses of pools.
const (
	// UseSubnet: pods' own addresses, and in the default Network those of nodes' interfaces.
	UseSubnet PoolUse = "Subnet"
	// UseServices: virtual addresses of a Network's own, for Services and Gateways.
	UseServices PoolUse = "Services"
	// UseGateways: virtual addresses for Gateways, of the range that each Network has for itself.
	UseGateways PoolUse = "Gateways"
	// UseFaces: faces of pods.
	UseFaces PoolUse = "Faces"
	// UseBlock: faces of the pods of a node.
	UseBlock PoolUse = "Block"
)

// AddressPool is a range of which addresses are given.
type AddressPool struct {
	Use PoolUse `json:"use"`
	// Name is that of the subnet, or of the node whose block it is.
	Name string `json:"name,omitempty"`
	CIDR string `json:"cidr"`
	// Gateway is the router's address, if it has one there.
	Gateway string `json:"gateway,omitempty"`
	// Size counts all its addresses, Used those that somebody holds, and Free those that can still be had. Each is at most 2^53-1.
	Size int64 `json:"size"`
	Used int64 `json:"used"`
	Free int64 `json:"free"`
	// Reserved are those that nobody gets. It is absent where the range is so large that they cannot be told from the Free ones.
	Reserved *int64 `json:"reserved,omitempty"`
	// UsedBy counts holders by their kinds.
	UsedBy []HolderCount `json:"usedBy,omitempty"`
	// Blocks are those that nodes have got of a range of faces.
	Blocks int64 `json:"blocks,omitempty"`
}

// HolderCount is how many addresses are held by objects of a kind.
type HolderCount struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
}

// Holder has an address.
type Holder struct {
	Address string `json:"address"`
	// Use is that of the address' pool; Kind is Pod, Node, Service, Gateway or Router, and Name the object's: NAMESPACE/NAME, where
	// it has a namespace.
	Use  PoolUse `json:"use"`
	Kind string  `json:"kind"`
	Name string  `json:"name"`
	// Node is where it runs, if it runs on one.
	Node string `json:"node,omitempty"`
	// Since is when the object was made: it has had the address since shortly after. Absent where that is not known.
	Since *metav1.Time `json:"since,omitempty"`
}

// IPAMCheck tells what is wrong with the addresses of a Network. Its name is the Network's, or ClusterPools.
type IPAMCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            IPAMCheckStatus `json:"status"`
}

// IPAMCheckList is a list of IPAMChecks.
type IPAMCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPAMCheck `json:"items"`
}

// IPAMCheckStatus is what was found.
type IPAMCheckStatus struct {
	// Tenant is whose the Network is; empty: the cluster's.
	Tenant string `json:"tenant,omitempty"`
	// Addresses are how many were looked at.
	Addresses int64 `json:"addresses"`
	// Findings are what is wrong. What is on its way may be among them: ask again, and believe what stays.
	Findings []IPAMFinding `json:"findings"`
	// Problem says what could not be looked at; empty when all was.
	Problem string `json:"problem,omitempty"`
}

// FindingKind says in which way an address, or a range, is wrong.
type FindingKind string

// The kinds of findings.
const (
	// FindingLeak: an address is held by nobody that lives.
	FindingLeak FindingKind = "Leak"
	// FindingDuplicate: two have the same address in one Network, or the same face in the cluster.
	FindingDuplicate FindingKind = "Duplicate"
	// FindingOutOfRange: an address is in none of the ranges that it could be of.
	FindingOutOfRange FindingKind = "OutOfRange"
	// FindingPortDiffers: the port in OVN has other addresses than what is written on its pod or node.
	FindingPortDiffers FindingKind = "PortDiffers"
	// FindingOverlap: two ranges overlap that must not.
	FindingOverlap FindingKind = "Overlap"
)

// IPAMFinding is one thing that is wrong.
type IPAMFinding struct {
	Kind FindingKind `json:"kind"`
	// Address is the one that is concerned; of Overlap the range.
	Address string `json:"address"`
	// Object is whose it is, as KIND/NAMESPACE/NAME; Message is what is wrong, Next what to do.
	Object  string `json:"object"`
	Message string `json:"message"`
	Next    string `json:"next"`
}
