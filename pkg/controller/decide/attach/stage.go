package attach

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/database"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// World is what pods are decided by, and where decisions go.
type World struct {
	Cluster  *cluster.Cluster
	Catalog  *cluster.Catalog
	Subnets  *ledger.Subnets
	Faces    *ledger.Faces
	Spare    ledger.Spare
	Networks *networks.Stage
	Nodes    Nodes
	Policies Policies
	Graph    *graph.Graph
	Database *database.Knowledge
	Sink     Sink
}

// Nodes are those that pods are on.
type Nodes interface {
	// Serves reports whether pods of a node can get faces.
	Serves(node string) bool
}

// Policies say which port groups a pod is in, and where it is among the peers of other Networks.
type Policies interface {
	GroupsOf(pod model.PodKey, a model.Attachment) []nb.Ref
	RemotePlacesOf(pod model.PodKey, a model.Attachment) []nb.Member
}

// Sink takes what is decided. A kube.Writer is one.
type Sink interface {
	WriteAttachments(pod model.PodKey, uid string, attachments []model.Attachment)
	// Forget drops what is not yet written on a pod.
	Forget(pod model.PodKey)
	Event(about model.ObjectRef, p model.Problem)
}

// Stages are where in a pass pods are decided about.
type Stages struct {
	// Blocks gives nodes what their pods have. Refills is the second look, after Nodes: at those that get
	// what came free. Ports are written until Leaves.
	Blocks, Refills, Leaves pass.Stage
}

// Stage decides about pods.
type Stage struct {
	// Changed tells of pods of which something has changed in a Network, and MembersChanged of Networks whose pods have.
	Changed        *pass.Topic[Place]
	MembersChanged *pass.Topic[string]
	// PortChanged tells of pods that have got their port, or another one, or lost it; Plugged of those that came, or got their
	// port, or lost it. FaceGiven tells of faces that a pod with a port has now.
	PortChanged, Plugged *pass.Topic[model.PodKey]
	FaceGiven            *pass.Topic[netip.Addr]
	// HeldChanged tells of tenants of whose namespaces more pods hold an address, or fewer, or in other Networks.
	HeldChanged *pass.Topic[string]
	// NodeChanged tells of nodes that got the blocks of their pods' faces, or whose pods have given faces back.
	NodeChanged *pass.Topic[string]

	World
	pods  map[model.PodKey]*pod
	books map[string]*book
	// on counts the pods of nodes.
	on map[string]int
	// onNode are the pods that hold faces of a node, or wait for it.
	onNode pass.Index[string, model.PodKey]
	// queue has the pods that are to be decided about, ports those whose ports are to be written.
	queue, ports *pass.Queue[model.PodKey]
	// warned are the namespaces of whose keys something was said.
	warned map[string]warnings
	// unwritten are new pods whose rows are not in the database, each since when.
	unwritten map[model.PodKey]time.Time
	quotas    quotas
	// resting are pods that wait until an address has rested.
	resting *pass.Timers[model.PodKey]
}

// Place is a pod in a Network.
type Place struct {
	Pod     model.PodKey
	Network string
}

// pod is a pod and where it is.
type pod struct {
	*model.Pod
	verdict
	// heldOf is the tenant whose pod it counts as, and where, since it holds an address; refusedOf that of one which holds none, and
	// is refused.
	heldOf    lodging
	refusedOf string
	// warned is what was said of its keys.
	warned warnings
}

// book has the pods of a Network, which may not exist: then they are all refused.
type book struct {
	networks.Members
	// strangers named the Network, which does not exist or does not admit them: they are looked at again when it changes,
	// and are nothing to it otherwise.
	strangers map[model.PodKey]struct{}
}

// New makes a stage without pods.
func New(w World, stages Stages) *Stage {
	s := &Stage{
		World:   w,
		Changed: pass.NewTopic[Place](stages.Refills), MembersChanged: pass.NewTopic[string](stages.Refills),
		PortChanged: pass.NewTopic[model.PodKey](stages.Refills), Plugged: pass.NewTopic[model.PodKey](stages.Refills),
		FaceGiven: pass.NewTopic[netip.Addr](stages.Refills), NodeChanged: pass.NewTopic[string](stages.Blocks),
		HeldChanged: pass.NewTopic[string](stages.Refills), quotas: quotas{
			pass.Index[lodging, model.PodKey]{}, pass.Index[string, model.PodKey]{}, pass.Index[string, string]{},
		},
		pods: map[model.PodKey]*pod{}, books: map[string]*book{}, on: map[string]int{}, onNode: pass.Index[string, model.PodKey]{},
		queue: pass.NewQueue[model.PodKey](stages.Refills), ports: pass.NewQueue[model.PodKey](stages.Leaves),
		warned: map[string]warnings{}, unwritten: map[model.PodKey]time.Time{}, resting: pass.NewTimers[model.PodKey](),
	}
	w.Cluster.NamespaceChanged.Follow(stages.Refills, func(name string) { s.queue.MarkAll(w.Cluster.PodsIn[name]) })
	w.Cluster.TenantChanged.Follow(stages.Refills, func(name string) { s.queue.MarkAll(s.quotas.refused[name]) })
	w.Catalog.AddressFreed.Follow(stages.Refills, s.addressFreed)
	w.Cluster.HostChanged.Follow(stages.Refills, s.addressFreed)
	w.Networks.Replaced.Follow(stages.Refills, func(name string) {
		if b := s.books[name]; b != nil {
			s.queue.MarkAll(b.Attached)
			clear(b.Attached)
			clear(b.Beyond)
		}
	})
	w.Networks.Planned.Follow(stages.Refills, s.networkPlanned)
	w.Networks.PlacesChanged.Follow(stages.Leaves, s.placesChanged)
	w.Subnets.Freed.Follow(stages.Refills, func(network string) { s.queue.MarkAll(w.Subnets.Waiting[network]) })
	w.Faces.Freed.Follow(stages.Refills, func(node string) { s.queue.MarkAll(w.Faces.Waiting[node]) })
	s.PortChanged.Follow(stages.Leaves, s.ports.Mark)
	return s
}

// NodeSeen says that a node has come, changed or gone.
func (s *Stage) NodeSeen(node string) { s.queue.MarkAll(s.onNode[node]) }

// GroupsChanged says that a pod is in other port groups.
func (s *Stage) GroupsChanged(key model.PodKey) { s.ports.Mark(key) }

// networkPlanned queues the pods that depend on a Network: those in it, those that fail, and those that named it without access.
func (s *Stage) networkPlanned(name string) {
	if b := s.books[name]; b != nil {
		s.queue.MarkAll(b.Attached)
		s.queue.MarkAll(b.strangers)
		for key := range b.Failing {
			s.queue.Mark(key)
		}
	}
}

// placesChanged has the ports of pods written which have places in the default Network's guard.
func (s *Stage) placesChanged(network string) {
	for key := range s.Members(network).Attached {
		if network != s.Cluster.Network || s.Cluster.IsInfrastructure(key.Namespace) {
			s.ports.Mark(key)
		}
	}
}

// addressFreed queues the pods that wait for an address which a Service or a Node had, or a slice named.
func (s *Stage) addressFreed(a netip.Addr) {
	for name, waiting := range s.Subnets.Waiting {
		if n := s.Networks.Get(name); n != nil && n.Layout.Holds(a) {
			s.queue.MarkAll(waiting)
		}
	}
}

// book is that of a Network, made when it is needed.
func (s *Stage) book(network string) *book {
	b := s.books[network]
	if b == nil {
		b = &book{
			Members: networks.Members{
				Attached: map[model.PodKey]struct{}{}, Beyond: pass.Index[string, model.PodKey]{}, Failing: map[model.PodKey]model.Problem{},
				Denied: map[model.PodKey]model.Problem{},
			},
			strangers: map[model.PodKey]struct{}{},
		}
		s.books[network] = b
	}
	return b
}

// closeBook forgets the book of a Network that no pod names any more.
func (s *Stage) closeBook(network string) {
	if b := s.books[network]; b != nil && len(b.Attached)+len(b.Failing)+len(b.Denied)+len(b.strangers) == 0 {
		delete(s.books, network)
	}
}

// Members are the pods of a Network.
func (s *Stage) Members(network string) networks.Members {
	if b := s.books[network]; b != nil {
		return b.Members
	}
	return networks.Members{}
}

// Attachment is what a pod holds, whether it may use it or not; nil while it holds nothing.
func (s *Stage) Attachment(key model.PodKey) *model.Attachment {
	if p := s.pods[key]; p != nil {
		return p.attachment
	}
	return nil
}

// Pod is a pod; nil when there is none.
func (s *Stage) Pod(key model.PodKey) *model.Pod {
	if p := s.pods[key]; p != nil {
		return p.Pod
	}
	return nil
}

// On reports whether a node has pods.
func (s *Stage) On(node string) bool { return s.on[node] > 0 }

// housed notes that a node has a pod more, or fewer.
func (s *Stage) housed(node string, more int) {
	if s.on[node] += more; s.on[node] == 0 {
		delete(s.on, node)
	}
}

// Where is the Network that a pod belongs to, and what it has there: nil while it has no port. Waiting: it is to have one.
func (s *Stage) Where(key model.PodKey) (network string, a *model.Attachment, waiting bool) {
	p := s.pods[key]
	if p == nil {
		return "", nil, false
	}
	if p.plugged {
		a = p.attachment
	}
	return p.network, a, p.problem != nil
}

// Refusals counts pods without a port, by the reason.
func (s *Stage) Refusals() map[string]int {
	counts := map[string]int{}
	for _, p := range s.pods {
		if p.problem != nil {
			counts[p.problem.Reason]++
		}
	}
	return counts
}

// Take takes namespaces' keys and pods in; nil ones have gone.
func (s *Stage) Take(namespaces map[string]*model.Namespace, pods map[model.PodKey]*model.Pod) {
	for _, name := range pass.Sorted(namespaces) {
		s.warnNamespace(name, namespaces[name])
	}
	for key, p := range pods {
		s.take(key, p)
	}
}

func (s *Stage) take(key model.PodKey, p *model.Pod) {
	old := s.pods[key]
	if old != nil && (p == nil || p.UID != old.UID) {
		s.settle(old, verdict{})
		s.tally(old, true)
		delete(s.pods, key)
		s.housed(old.Node, -1)
		s.Cluster.PodsIn.Drop(key.Namespace, key)
		old = nil
	}
	if old == nil {
		// An address is a node's, or nobody's, by whether a pod is known there.
		s.Plugged.Changed(key)
	}
	if p == nil {
		return
	}
	if old == nil {
		old = &pod{}
		s.pods[key] = old
		s.Cluster.PodsIn.Add(key.Namespace, key)
	} else {
		s.housed(old.Node, -1)
	}
	s.housed(p.Node, 1)
	if old.Pod != nil && old.echoes(p) {
		old.Pod = p
		return
	}
	old.Pod = p
	s.warnPod(old)
	s.queue.Mark(key)
}

// Reclaim gives nodes the blocks that pods have faces of, where nothing is written on the nodes: a Node may be
// made anew, or be away, while its pods run.
func (s *Stage) Reclaim() {
	if !s.Faces.Any() {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.queue.Marked()), model.PodKey.Compare) {
		p := s.pods[key]
		if p == nil || len(p.Assigned) == 0 || len(p.Assigned[0].Faces) == 0 {
			continue
		}
		if s.Faces.Reclaim(p.Node, p.Assigned[0].Faces) {
			s.NodeChanged.Changed(p.Node)
		}
	}
}

// Decide decides about the pods that something changed about: those with an address first, then by age.
func (s *Stage) Decide() {
	keys := s.queue.Take()
	order := make([]*pod, 0, len(keys))
	for key := range keys {
		if p := s.pods[key]; p != nil {
			order = append(order, p)
		}
	}
	slices.SortFunc(order, func(a, b *pod) int {
		return cmp.Or(
			cmp.Compare(a.standing(), b.standing()),
			a.Created.Compare(b.Created),
			a.Key.Compare(b.Key),
		)
	})
	for _, p := range order {
		s.settle(p, s.judge(p))
		s.tally(p, false)
	}
}

// standing orders pods: 0 holds an address now, 1 held one before the controller started, 2 wants one.
func (p *pod) standing() int {
	switch {
	case p.attachment != nil:
		return 0
	case len(p.Assigned) > 0:
		return 1
	}
	return 2
}
