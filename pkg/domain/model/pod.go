package model

import (
	"net/netip"
	"time"
)

// PodKey names a pod.
type PodKey struct {
	Namespace, Name string
}

// String is the key as users write it: namespace/name.
func (k PodKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k PodKey) Compare(o PodKey) int {
	if k.Namespace != o.Namespace {
		if k.Namespace < o.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case k.Name < o.Name:
		return -1
	case k.Name > o.Name:
		return 1
	}
	return 0
}

// Pod is a scheduled pod that needs a network: it has a node, does not use the node's own network and has
// not finished.
type Pod struct {
	Key     PodKey
	UID     string
	Node    string
	Created time.Time
	// Labels are all labels, and Ports the ports that have names; policies ask for both.
	Labels map[string]string
	Ports  []PodPort
	// Network is the pod's own choice (its label); empty when it made none.
	Network string
	// NIC is what the pod asks of its interface; the zero value asks for nothing.
	NIC NICRequest
	// NICError says in plain words why AnnotationNICs cannot be followed; empty when it can.
	NICError string
	// Beyond: it has more of its node than the Pod Security level baseline gives (intake.BeyondBaseline).
	Beyond bool
	// Unknown is what Keys says of the pod's labels and annotations.
	Unknown []string
	// Unwritable says in plain words why nothing can be written on the pod; empty when it can.
	Unwritable string
	// Assigned is what an earlier decision wrote on the pod: the truth after a restart, once it has been
	// checked against the Network. Empty when there is none, none that can be read, or one of another pod.
	Assigned []Attachment
}

// NICRequest is one element of AnnotationNICs. On a flat Network Subnet and IP are ignored.
type NICRequest struct {
	// Network overrides the label; empty leaves the choice to it.
	Network string `json:"network,omitempty"`
	// Subnet names the subnet to take the address from; empty means the first with room.
	Subnet string `json:"subnet,omitempty"`
	// IP is the wanted address; the zero Addr means any.
	IP netip.Addr `json:"ip,omitzero"`
	// Name is the interface's name inside the pod; empty means DefaultInterface.
	Name string `json:"name,omitempty"`
}

// Attachment is one interface of a pod as the controller decided it, and one element of
// AnnotationAttachments.
type Attachment struct {
	// PodUID is the UID of the pod that it was decided for. An annotation that was copied with its pod, or
	// written before the pod had a UID, names another one and counts for nothing.
	PodUID string `json:"podUID"`
	// Interface is the name inside the pod.
	Interface string `json:"interface"`
	Network   string `json:"network"`
	// NetworkUID is the UID of that Network: one that is made anew under its name is another.
	NetworkUID string `json:"networkUID"`
	Subnet     string `json:"subnet"`
	MAC        string `json:"mac"`
	// Addresses are the pod's own, each with the prefix length of its subnet: one per IP family.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the routers of the default routes: at most one per IP family.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// Faces are the addresses that Kubernetes sees, its status.podIPs: unique in the cluster, one for each of
	// Addresses and in their order. Empty in a flat Network, where the pod's own are.
	Faces []netip.Addr `json:"faces,omitempty"`
}
