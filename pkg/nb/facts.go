package nb

import "strings"

// Owner names the object that facts come from: Kind/name or Kind/namespace/name. It is the value of KeyOwner.
type Owner string

// NetworkOwner is the owner of what a Network needs.
func NetworkOwner(name string) Owner { return Owner("Network/" + name) }

// PodOwner is the owner of what a pod needs.
func PodOwner(namespace, name string) Owner { return Owner("Pod/" + namespace + "/" + name) }

// NodeOwner is the owner of what a node needs.
func NodeOwner(name string) Owner { return Owner("Node/" + name) }

// ServiceOwner is the owner of what a Service needs.
func ServiceOwner(namespace, name string) Owner { return Owner("Service/" + namespace + "/" + name) }

// GatewayOwner is the owner of what a Gateway needs.
func GatewayOwner(namespace, name string) Owner { return Owner("Gateway/" + namespace + "/" + name) }

// PortGroupOwner is the owner of a port group of a Network.
func PortGroupOwner(network, name string) Owner { return Owner("PortGroup/" + network + "/" + name) }

// LogOwner is the owner of what bounds the logs of a namespace's policies; of those of the cluster when it is empty.
func LogOwner(namespace string) Owner {
	if namespace == "" {
		return "Log/policies"
	}
	return Owner("Log/policies/" + namespace)
}

// PolicyOwner is the owner of what a policy needs in one Network. policy is its kind, namespace and name.
func PolicyOwner(policy, network string) Owner { return Owner("Policy/" + network + "/" + policy) }

// Facts say what one owner wants of the database.
type Facts struct {
	Rows    []Row
	Members []Member
}

// Empty reports whether nothing is wanted.
func (f Facts) Empty() bool { return len(f.Rows)+len(f.Members) == 0 }

// Add puts those of other after those of f.
func (f *Facts) Add(other Facts) {
	f.Rows, f.Members = append(f.Rows, other.Rows...), append(f.Members, other.Members...)
}

// Set is a member column of one row.
type Set struct {
	In     Ref
	Column string
}

// Target is the table that the set's elements refer to.
func (s Set) Target() Table { return TargetTable(Column{s.In.Table, s.Column}) }

// Member says that Set holds Value: a row's UUID, an address, or a Pair.
type Member struct {
	Set
	Value string
}

// Ref points at the row that the member refers to. A value's points nowhere: at no row, and for two pairs with the same key at
// the same place.
func (m Member) Ref() Ref {
	if m.IsValue() {
		key, _ := SplitPair(m.Value)
		return Ref{UUID: m.In.UUID + pairSeparator + key}
	}
	return Ref{m.Target(), m.Value}
}

// IsValue reports whether the set's elements are values, pairs of a map among them, and no rows.
func (s Set) IsValue() bool { return s.Target() == "" }

// IsMap reports whether the set's elements are pairs of a map.
func (s Set) IsMap() bool { return s.In.Table == TableLoadBalancer && s.Column == ColumnVips }

// pairSeparator stands between the key and the value of a pair; no value that we write holds it.
const pairSeparator = "\x00"

// Pair is the element of a map column that has value at key. A pair with another value is another element.
func Pair(key, value string) string { return key + pairSeparator + value }

// SplitPair takes a Pair apart.
func SplitPair(pair string) (key, value string) {
	key, value, _ = strings.Cut(pair, pairSeparator)
	return key, value
}
