package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
)

// AnnotationLogPolicy on a policy with the value true has the packets logged that its rules decide about.
const AnnotationLogPolicy = Group + "/log"

// PolicyKind is the kind of object that a Policy was.
type PolicyKind string

// The kinds of policies.
const (
	NetworkPolicy        PolicyKind = "NetworkPolicy"
	ClusterNetworkPolicy PolicyKind = "ClusterNetworkPolicy"
)

// PolicyKey names a policy. Namespace is empty for one of the cluster.
type PolicyKey struct {
	Kind            PolicyKind
	Namespace, Name string
}

// String is the key as users write it, with its kind.
func (k PolicyKey) String() string {
	if k.Namespace == "" {
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
}

// Compare orders keys.
func (k PolicyKey) Compare(o PolicyKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Tier is when a policy is asked: all of one tier before the next.
type Tier uint8

// The tiers, in the order in which they are asked.
const (
	// TierAdmin are ClusterNetworkPolicies that nobody can override.
	TierAdmin Tier = iota
	// TierTenant are NetworkPolicies.
	TierTenant
	// TierBaseline are ClusterNetworkPolicies for pods that no NetworkPolicy isolates.
	TierBaseline
)

// Direction of packets, as seen from the pod that a policy selects.
type Direction uint8

// The directions.
const (
	PolicyIngress Direction = iota
	PolicyEgress
)

// String is the direction as the API writes it.
func (d Direction) String() string {
	if d == PolicyIngress {
		return "Ingress"
	}
	return "Egress"
}

// Policy says what the pods that it selects may receive and send, whatever kind of object it was.
type Policy struct {
	Key PolicyKey
	UID string
	// Tier and Priority: within a tier lower priorities are asked first. Policies of TierTenant have none.
	Tier     Tier
	Priority int32
	// Subject selects the pods.
	Subject match.Pods
	// Isolates: in that direction the selected pods have only what some policy allows them. Only of TierTenant.
	Isolates [2]bool
	// Rules of each direction, the first first.
	Rules [2][]Rule
	// Log: packets that its rules decide about are logged.
	Log bool
	// Problems say what of the object cannot be understood. What they concern forbids and allows nothing.
	Problems []Problem
}

// Judges reports whether the policy decides anything.
func (p Policy) Judges() bool {
	return p.Isolates != [2]bool{} || len(p.Rules[PolicyIngress])+len(p.Rules[PolicyEgress]) > 0
}

// Verdict is what a rule does with a packet.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
	// Pass leaves the decision to the next tier.
	Pass Verdict = "pass"
)

// Rule decides about packets from or to one of its peers, to one of its ports.
type Rule struct {
	// Name is its owner's word for it; it may be empty.
	Name    string
	Verdict Verdict
	// AnyPeer: whoever the peer is. Else one of Peers; none of none.
	AnyPeer bool
	Peers   []Peer
	// AnyPort: whatever the protocol. Else one of Ports; none of none.
	AnyPort bool
	Ports   []PolicyPort
}

// Peer is the other side: exactly one of its fields is set.
type Peer struct {
	// Pods are pods of the same Network.
	Pods *match.Pods
	// Block is a range of addresses.
	Block *Block
	// Nodes are the addresses of the nodes with these labels.
	Nodes *match.Selector
}

// Block is a range of addresses without some that lie in it.
type Block struct {
	CIDR   netip.Prefix
	Except []netip.Prefix
}

// Contains reports whether an address is in the block.
func (b Block) Contains(a netip.Addr) bool {
	return b.CIDR.Contains(a) && !slices.ContainsFunc(b.Except, func(e netip.Prefix) bool { return e.Contains(a) })
}

// Means reports whether the block means who has these addresses: it holds one of them and leaves none out. A pod of a vpc
// Network has two, its own and its face.
func (b Block) Means(addresses []netip.Addr) bool {
	holds := false
	for _, a := range addresses {
		if slices.ContainsFunc(b.Except, func(e netip.Prefix) bool { return e.Contains(a) }) {
			return false
		}
		holds = holds || b.CIDR.Contains(a)
	}
	return holds
}

// String is the block as text: that of blocks with the same addresses may differ.
func (b Block) String() string {
	words := []string{b.CIDR.String()}
	for _, e := range b.Except {
		words = append(words, e.String())
	}
	return strings.Join(words, " except ")
}

// PolicyPort is some of the destination ports of a protocol. With a Name it is the port that the destination pod calls
// so; Protocol may then be empty and means any. Without one, First to Last, both included; 0 and 0 are all ports.
type PolicyPort struct {
	Protocol    Protocol
	First, Last uint16
	Name        string
}

// Nothing is the rule for no packet at all.
func (r Rule) Nothing() Rule { return Rule{Name: r.Name, Verdict: r.Verdict} }

// HasPort reports whether the rule's ports hold a port of a pod.
func (r Rule) HasPort(port PodPort) bool {
	if r.AnyPort {
		return true
	}
	for _, p := range r.Ports {
		if p.Protocol != "" && p.Protocol != port.Protocol {
			continue
		}
		switch {
		case p.Name != "":
			if p.Name == port.Name {
				return true
			}
		case p.First == 0, p.First <= port.Port && port.Port <= p.Last:
			return true
		}
	}
	return false
}

// PodPort is a port to which a pod gives a name.
type PodPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Compare orders ports.
func (p PodPort) Compare(o PodPort) int {
	return cmp.Or(cmp.Compare(p.Name, o.Name), cmp.Compare(p.Protocol, o.Protocol), cmp.Compare(p.Port, o.Port))
}

// Reasons of Problems of policies.
const (
	// ReasonPolicyInvalid: a part of a policy cannot be understood; it fails closed.
	ReasonPolicyInvalid = "PolicyInvalid"
)

// Ref names the policy.
func (p Policy) Ref() ObjectRef {
	version := "networking.k8s.io/v1"
	if p.Key.Kind == ClusterNetworkPolicy {
		version = "policy.networking.k8s.io/v1alpha2"
	}
	return ObjectRef{APIVersion: version, Kind: string(p.Key.Kind), Namespace: p.Key.Namespace, Name: p.Key.Name, UID: p.UID}
}
