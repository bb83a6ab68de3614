package nb

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

// Facts say what one owner wants of the database.
type Facts struct {
	Rows    []Row
	Members []Member
}

// Set is a member column of one row.
type Set struct {
	In     Ref
	Column string
}

// Target is the table that the set's elements refer to.
func (s Set) Target() Table { return TargetTable(Column{s.In.Table, s.Column}) }

// Member says that Set holds Value, a row's UUID.
type Member struct {
	Set
	Value string
}

// Ref points at the row that the member refers to.
func (m Member) Ref() Ref { return Ref{m.Target(), m.Value} }
