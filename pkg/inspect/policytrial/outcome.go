package policytrial

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Question asks what would change.
type Question struct {
	// Objects are the cluster's, Defaults the settings by which a controller decides.
	Objects  model.Changes
	Defaults decide.Defaults
	// Policies are those that would be others; nil: it would be gone.
	Policies map[model.PolicyKey]*model.Policy
	// Sees reports whether who asks may be told of a pod; nil: of all.
	Sees func(model.PodKey) bool
	// Flows are those that were seen, which who asks may be told of.
	Flows []model.Flow
	// Gone says why nobody wants the outcome any more, and is asked again and again; nil: somebody does.
	Gone func() error
}

// Outcome is what would change.
type Outcome struct {
	Changes []Change
	// Selected are how many pods the policies select that would be others, before or after; Waiting those of them that have no address yet,
	// and are not compared.
	Selected, Waiting int
	// Denied and Allowed count paths, and DeniedPairs and AllowedPairs the pairs of groups that they are between. A path is a pair
	// and a protocol.
	Denied, Allowed           int
	DeniedPairs, AllowedPairs int
	// Judged is how many verdicts it took.
	Judged int
	// Flows are those that were seen and would be decided otherwise. Unjudged is of how many that is not known: a pod has gone, or
	// somebody else's is at the other end. Unsampled is how many of the pods that the policies select have no policy yet in a
	// direction, so that nothing was seen at them.
	Flows               []FlowChange
	Unjudged, Unsampled int
	// Cut says what was not compared, since it would be too much; empty when all was.
	Cut string
}

// cut adds to what was not compared.
func (o *Outcome) cut(what string) {
	if o.Cut != "" {
		o.Cut += "; "
	}
	o.Cut += what
}

// Change is what would change alike between some groups.
type Change struct {
	// From begins, To is dialled: each of From and each of To is a pair.
	From, To []*Group
	// Family is IPv4 or IPv6, where it is one of them alone; Face: it is about what is dialled by faces, of two Networks that know
	// own addresses, too.
	Family string
	Face   bool
	Ports  []PortSet
	Before Verdict
	After  Verdict
}

// Verdict is whether packets pass, and what decides.
type Verdict struct {
	Allowed bool
	// Deciders: the one end that denies; or what allows at either, as far as a row does.
	Deciders []Decider
}

// Decider is what decides at one end.
type Decider struct {
	Direction model.Direction
	Origin    nb.Origin
	// Isolating are the policies that isolate the pod, where that is what denies.
	Isolating []model.PolicyKey
}

// Kind is what a group is made of.
type Kind string

// The kinds.
const (
	// Pods are pods of one namespace and Network that no policy tells apart.
	Pods Kind = "pods"
	// Nodes are nodes that no policy tells apart. A pod's own node always reaches it, and is none of them.
	Nodes Kind = "nodes"
	// Outside are addresses that are no pod's of the Network, and no node's.
	Outside Kind = "outside"
	// Names are the cluster's DNS, as the Network's pods dial it.
	Names Kind = "names"
	// API is the Kubernetes API, as they dial it.
	API Kind = "api"
)

// Group is one end of paths.
type Group struct {
	Kind    Kind
	Network string
	// Namespace, Pods and Labels are those of Pods: all of them, sorted, and the labels that they have in common.
	Namespace string
	Pods      []model.PodKey
	Labels    map[string]string
	// Nodes are their names, sorted.
	Nodes []string
	// CIDR and Except are those of Outside: the addresses within the one that are in none of the others. A CIDR without bits: any
	// other address of its family.
	CIDR   netip.Prefix
	Except []netip.Prefix
	// Dialled are the addresses and ports of Names and API.
	Dialled []netip.AddrPort
}
