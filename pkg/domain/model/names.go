package model

// Group is the API group of Atoll's objects and the prefix of its labels and annotations.
const Group = "atoll.dev"

// Labels and annotations that users set.
const (
	// LabelNetwork on a pod, or on its namespace, names the Network that the pod joins.
	LabelNetwork = Group + "/network"
	// LabelTenant on a namespace names the tenant that owns it.
	LabelTenant = Group + "/tenant"
	// LabelInfrastructure on a namespace says, when it is "true", that its pods in the default Network are infrastructure: they
	// reach the pods of all Networks.
	LabelInfrastructure = Group + "/infrastructure"
	// LabelPodSecurity on a namespace is the Pod Security level that Kubernetes holds its pods to.
	LabelPodSecurity = "pod-security.kubernetes.io/enforce"
	// AnnotationNICs on a pod asks for a subnet or an address: a JSON list of NICRequest.
	AnnotationNICs = Group + "/nics"
	// AnnotationExternalRanges on a namespace are the ranges of which its Services may have external addresses: CIDRs, separated by
	// commas. The admission policies read it.
	AnnotationExternalRanges = Group + "/external-ranges"
)

// Annotations that the controller writes and the agent reads. The admission policies in dist/ let nobody
// else write them, and neither side trusts them alone: OVN's port security carries the controller's decision.
const (
	// AnnotationAttachments on a pod is a JSON list of Attachment.
	AnnotationAttachments = Group + "/attachments"
	// AnnotationAddresses on a pod are its own addresses, with commas between them: for people.
	AnnotationAddresses = Group + "/addresses"
	// AnnotationNetworkStatus is the multi-network convention's report of a pod's interfaces.
	AnnotationNetworkStatus = "k8s.v1.cni.cncf.io/network-status"
)

// Finalizer keeps a Network until its last pod has gone.
const Finalizer = Group + "/network"

// DefaultInterface is the name of a pod's first interface inside the pod.
const DefaultInterface = "eth0"

// GeneveOverhead is what a Geneve tunnel over IPv4 with OVN's option adds to an inner IP packet, in bytes:
// inner Ethernet 14, IP 20, UDP 8, Geneve 8, option 8. (RFC 8926; ovn-architecture(7).)
const GeneveOverhead = 58
