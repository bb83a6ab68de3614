package nb

import (
	"cmp"
	"strings"
)

// Kind is what an owner is. Those who decide register what they hear of their owners by it.
type Kind string

// The kinds of owners. Orphans are rows of ours that no object wants any more.
const (
	KindNetwork              Kind = "Network"
	KindNode                 Kind = "Node"
	KindPod                  Kind = "Pod"
	KindService              Kind = "Service"
	KindGateway              Kind = "Gateway"
	KindPortGroup            Kind = "PortGroup"
	KindOffer                Kind = "Offer"
	KindNames                Kind = "Names"
	KindPlace                Kind = "Place"
	KindLog                  Kind = "Log"
	KindNetworkPolicy        Kind = "NetworkPolicy"
	KindClusterNetworkPolicy Kind = "ClusterNetworkPolicy"
	KindOrphan               Kind = "orphan"
	KindEvicted              Kind = "evicted"
)

// OnlyAllows reports whether the ACLs of owners of the kind open something and close nothing, so that less passes without them.
func (k Kind) OnlyAllows() bool { return k == KindNetworkPolicy }

// shape says which fields the owners of a kind have besides a name.
type shape struct{ part, namespace bool }

func shapeOf(k Kind) (shape, bool) {
	switch k {
	case KindNetwork, KindNames, KindNode, KindPlace, KindEvicted:
		return shape{}, true
	case KindPod, KindService, KindGateway:
		return shape{namespace: true}, true
	case KindPortGroup, KindOffer, KindLog, KindClusterNetworkPolicy, KindOrphan:
		return shape{part: true}, true
	case KindNetworkPolicy:
		return shape{part: true, namespace: true}, true
	}
	return shape{}, false
}

// Owner names the object that facts come from. Its text is the value of KeyOwner.
type Owner struct {
	Kind Kind
	// Part tells apart what an object wants several times, as a policy does in each Network.
	Part            string
	Namespace, Name string
}

// String is the owner as rows name it: Kind/part/namespace/name, without what it has not. One of no kind is its name.
func (o Owner) String() string {
	if o.Kind == "" {
		return o.Name
	}
	var text strings.Builder
	text.WriteString(string(o.Kind))
	for _, word := range []string{o.Part, o.Namespace, o.Name} {
		if word != "" {
			text.WriteByte('/')
			text.WriteString(word)
		}
	}
	return text.String()
}

// ParseOwner reads what String writes. What it cannot read becomes an owner of no kind whose name is the text; then it is
// false.
func ParseOwner(text string) (Owner, bool) {
	kind, rest, _ := strings.Cut(text, "/")
	o := Owner{Kind: Kind(kind), Name: rest}
	has, known := shapeOf(o.Kind)
	if has.part {
		o.Part, o.Name, _ = strings.Cut(o.Name, "/")
	}
	if has.namespace {
		o.Namespace, o.Name, _ = strings.Cut(o.Name, "/")
	}
	if !known || o.String() != text || o.Name == "" && o.Kind != KindLog {
		return Owner{Name: text}, false
	}
	return o, true
}

// Network is the one whose rows the owner has; false when that is not known, or it has rows of several.
func (o Owner) Network() (string, bool) {
	switch o.Kind {
	case KindNetwork, KindNames:
		return o.Name, true
	case KindPortGroup, KindOffer, KindNetworkPolicy, KindClusterNetworkPolicy:
		return o.Part, true
	}
	return "", false
}

// MarshalText writes an owner as String does.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads an owner as ParseOwner does; what that cannot read is an owner of no kind.
func (o *Owner) UnmarshalText(text []byte) error {
	*o, _ = ParseOwner(string(text))
	return nil
}

// Compare orders owners: by kind, then part, namespace and name.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(
		strings.Compare(string(o.Kind), string(other.Kind)), strings.Compare(o.Part, other.Part),
		strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Name, other.Name),
	)
}

// NetworkOwner is the owner of what a Network needs.
func NetworkOwner(name string) Owner { return Owner{Kind: KindNetwork, Name: name} }

// PodOwner is the owner of what a pod needs.
func PodOwner(namespace, name string) Owner {
	return Owner{Kind: KindPod, Namespace: namespace, Name: name}
}

// NodeOwner is the owner of what a node needs.
func NodeOwner(name string) Owner { return Owner{Kind: KindNode, Name: name} }

// ServiceOwner is the owner of what a Service needs.
func ServiceOwner(namespace, name string) Owner {
	return Owner{Kind: KindService, Namespace: namespace, Name: name}
}

// GatewayOwner is the owner of what a Gateway needs.
func GatewayOwner(namespace, name string) Owner {
	return Owner{Kind: KindGateway, Namespace: namespace, Name: name}
}

// PortGroupOwner is the owner of a port group of a Network.
func PortGroupOwner(network, name string) Owner {
	return Owner{Kind: KindPortGroup, Part: network, Name: name}
}

// OfferOwner is the owner of what a Network's offer needs in the way that the name says, and can do without for a while.
func OfferOwner(network, name string) Owner {
	return Owner{Kind: KindOffer, Part: network, Name: name}
}

// NamesOwner is the owner of what leads a Network's questions for names to a Service.
func NamesOwner(network string) Owner { return Owner{Kind: KindNames, Name: network} }

// PlaceOwner is the owner of what tells clients on a node which of the virtual addresses that differ by place are theirs.
func PlaceOwner(node string) Owner { return Owner{Kind: KindPlace, Name: node} }

// LogOwner is the owner of what bounds the logs of a namespace's policies; of those of the cluster when it is empty.
func LogOwner(namespace string) Owner {
	return Owner{Kind: KindLog, Part: "policies", Name: namespace}
}

// PolicyOwner is the owner of what a policy needs in one Network.
func PolicyOwner(kind Kind, namespace, name, network string) Owner {
	return Owner{Kind: kind, Part: network, Namespace: namespace, Name: name}
}

// OrphanOwner stands for a row of ours that no object wants any more. Each has an owner of its own, so that one which the
// database does not let go keeps no other.
func OrphanOwner(row Ref) Owner {
	return Owner{Kind: KindOrphan, Part: row.Table.String(), Name: row.UUID}
}

// EvictedOwner stands for a row that leaves all its sets.
func EvictedOwner(uuid string) Owner { return Owner{Kind: KindEvicted, Name: uuid} }
