package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/database"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// World is what Networks look at, and where decisions go.
type World struct {
	Cluster   *cluster.Cluster
	Catalog   *cluster.Catalog
	Subnets   *ledger.Subnets
	Faces     *ledger.Faces
	Virtual   *ledger.Virtual
	Graph     *graph.Graph
	Database  *database.Knowledge
	Sink      Sink
	Pods      Pods
	Resolvers Resolvers
}

// Pods are those of Networks. They are decided about between the stages of Networks.
type Pods interface {
	Members(network string) Members
	// Attachment is what a pod holds; nil while it holds nothing.
	Attachment(pod model.PodKey) *model.Attachment
}

// Members are the pods of a Network. Nobody changes them who reads them.
type Members struct {
	// Attached hold addresses of it.
	Attached map[model.PodKey]struct{}
	// Beyond are those of them, by their namespaces, that have more of their nodes than the Pod Security level baseline gives.
	Beyond pass.Index[string, model.PodKey]
	// Failing have no port, and why. Denied are those whose rows the database has refused, and why.
	Failing, Denied map[model.PodKey]model.Problem
}

// Resolvers answer questions for names.
type Resolvers interface {
	// NameServers are the addresses at which a Network's pods ask.
	NameServers(n *model.Network) []netip.Addr
	// Answering is how a Service answers a Network's questions.
	Answering(service model.ServiceKey, network string) Answering
}

// Answering is how a Service answers the questions for names of a Network's pods.
type Answering struct {
	// Reached: they know the Service. Answered: it has endpoints that answer.
	Reached, Answered bool
	// Home is the Network of the Service's namespace; empty while that is not known.
	Home string
	// From are other Networks whose pods may answer, sorted.
	From []string
}

// Sink takes what is decided. A kube.Writer is one.
type Sink interface {
	WriteNetworkStatus(name, uid string, status model.NetworkStatus)
	WriteFinalizer(name, uid string, present bool)
	Event(about model.ObjectRef, p model.Problem)
}

// Stages are where in a pass Networks are decided about.
type Stages struct {
	// Objects takes them in, and Layouts plans what they serve. Closings takes away what no pod uses any more.
	Objects, Layouts, Closings pass.Stage
	// Routers writes their rows, Ranges decides about service ranges, and Statuses reports.
	Routers, Ranges, Statuses pass.Stage
}

// Stage decides about Networks.
type Stage struct {
	// Changed tells of Networks that came, changed or went, and perhaps whom they admit. Replaced tells of those of them whose former
	// pods have nothing to do with what has their name now.
	Changed, Replaced *pass.Topic[string]
	// Planned tells of Networks that pods may find changed, and Served of those that serve something else, perhaps.
	Planned, Served *pass.Topic[string]
	// HomeChanged: nodes may have another place in the default Network. GuardChanged: they may have other ports there.
	HomeChanged, GuardChanged *pass.Topic[struct{}]
	// PlacesChanged tells of Networks whose pods have other places in the default Network's guard.
	PlacesChanged *pass.Topic[string]
	// InfrastructureChanged: it may have other addresses.
	InfrastructureChanged *pass.Topic[struct{}]
	// Seen tells of Networks that everybody sees changed who sees them. Reported tells of those that say otherwise whether they are ready.
	Seen, Reported *pass.Topic[string]

	World
	networks map[string]*Network
	// byVPC finds the Networks that claim a vpcID.
	byVPC pass.Index[string, string]
	// byTenant finds the Networks of a tenant, quotas are the bounds on them, and requoted those whose tenant's bound is another.
	byTenant pass.Index[string, string]
	quotas   map[string]model.Quota
	requoted map[string]struct{}
	// admitting are the names of the Networks that admit a namespace, for those who were asked about.
	admitting map[string][]string
	// privileged are the namespaces whose pods may have all the rights of their nodes, and levels is how often one of them has changed.
	privileged map[string]struct{}
	levels     int
	// answered finds the Networks whose names a Service answers for, or, by the cluster's own DNS, those where nobody does.
	answered pass.Index[model.ServiceKey, string]
	// former Networks serve subnets that they do not list any more.
	former map[string]struct{}
	// replanned Networks are compared with the infrastructure's addresses; all of them are when these have changed.
	replanned    map[string]struct{}
	infraChanged bool
	// housed: the default Network is there for nodes.
	housed bool
	guard  guard
	flats  flats
	// budget bounds how often tenants change their Networks.
	budget budget
	// numbers are those of switches and routers.
	numbers numbers
	// compatible says whose pods reach whose.
	compatible *compatible.Networks
	// rejoined are those whose peers may be others than their rows say.
	rejoined map[string]struct{}
	// unrouted may have other rows, unserved other service ranges, all of them when the infrastructure has changed. unreported
	// have other statuses, perhaps; so have those for whose names the answering Services answer. Those that moved came, went, or are
	// another tenant's.
	unrouted, unserved, unreported, moved *pass.Queue[string]
	allUnserved                           bool
	answering                             *pass.Queue[model.ServiceKey]
}

// Network is a Network and what it serves. Nobody changes it who reads it.
type Network struct {
	Name string
	// Default: it is the cluster's default one.
	Default bool
	// Model is nil once it has gone.
	Model    *model.Network
	Layout   compile.Layout
	Problems []model.Problem

	// told are the problems of which the owner of the Network of that UID has heard.
	told struct {
		uid      string
		problems []model.Problem
	}
	// leaving are its subnets that are not listed any more and still served, and why.
	leaving []model.Problem
	// conflicts are its ranges that overlap the infrastructure's.
	conflicts []string
	// home is the default Network, on whose router the subnets of a flat one hang; nil of any other.
	home *Network
	// rangeProblems say why service ranges are not served.
	rangeProblems []model.Problem
	// routed: the graph has its rows as the layout says.
	routed bool
	// written: its rows are in the database; denied: why the database refused them.
	written bool
	denied  *model.Problem
	// changed: the database does not have all its rows as they are wanted now. observed is the generation with which it had.
	changed  bool
	observed int64
	// seen is the state that views were last compared with, reported what it last said of being ready.
	seen     string
	reported []model.Condition
	// isolated is the verdict of which its owner has heard from this controller, and outward how it is isolated from other tenants,
	// as was last reported; nil while that is not known.
	isolated model.Hardness
	outward  *model.Isolation
	// walls are the verdicts that were drawn last.
	walls *walls
	// peers are the Networks that it has to do with, as its rows say, providers those of them whose pods its own reach, and consumers those
	// whose pods reach its own. peering: it has rows, as its peers know.
	peers                compile.Peers
	providers, consumers []string
	peering              bool
	// wait is what of it waits. late: some of it did, and the database does not have all of it yet.
	wait wait
	late bool
	// known are its ranges as those know them that dial own addresses of it.
	known []netip.Prefix
}

// New makes a stage without Networks.
func New(w World, stages Stages) *Stage {
	s := &Stage{
		World:   w,
		Changed: pass.NewTopic[string](stages.Objects), Replaced: pass.NewTopic[string](stages.Objects),
		Planned: pass.NewTopic[string](stages.Layouts), Served: pass.NewTopic[string](stages.Routers),
		HomeChanged: pass.NewTopic[struct{}](stages.Closings), GuardChanged: pass.NewTopic[struct{}](stages.Routers),
		PlacesChanged: pass.NewTopic[string](stages.Routers), InfrastructureChanged: pass.NewTopic[struct{}](stages.Ranges),
		Seen: pass.NewTopic[string](stages.Statuses), Reported: pass.NewTopic[string](stages.Statuses),
		privileged: map[string]struct{}{},
		byTenant:   pass.Index[string, string]{}, quotas: map[string]model.Quota{}, requoted: map[string]struct{}{},
		networks: map[string]*Network{}, byVPC: pass.Index[string, string]{}, admitting: map[string][]string{},
		answered: pass.Index[model.ServiceKey, string]{}, former: map[string]struct{}{}, replanned: map[string]struct{}{},
		guard: guard{faced: map[string]struct{}{}}, flats: flats{names: map[string]struct{}{}}, budget: newBudget(w.Cluster.NetworkChanges),
		rejoined: map[string]struct{}{}, numbers: numbers{asked: map[string][]numbered{}, askers: pass.Index[string, string]{}},
		compatible: compatible.New(compatible.Settings{
			Faces: w.Cluster.Faces, DefaultSubnet: w.Cluster.Subnet, MaxJoined: w.Cluster.MaxJoined, Default: w.Cluster.Network,
			Taken: slices.Concat(w.Cluster.Services, w.Cluster.Gateways, w.Cluster.Others),
		}),
		unrouted: pass.NewQueue[string](stages.Routers), unserved: pass.NewQueue[string](stages.Ranges),
		unreported: pass.NewQueue[string](stages.Statuses), moved: pass.NewQueue[string](stages.Statuses),
		answering: pass.NewQueue[model.ServiceKey](stages.Statuses),
	}
	w.Cluster.NamespaceChanged.Follow(stages.Objects, func(name string) {
		delete(s.admitting, name)
		s.levelMoved(name)
	})
	w.Cluster.TenantChanged.Follow(stages.Objects, s.tenantChanged)
	w.Cluster.AddressesChanged.Follow(stages.Closings, func(struct{}) {
		s.infraChanged = true
		s.flats.stale = s.flats.stale || len(s.flats.names) > 0
	})
	w.Cluster.HostChanged.Follow(stages.Routers, s.hostChanged)
	w.Cluster.NamelessChanged.Follow(stages.Statuses, func(struct{}) { s.reportAll() })
	w.Catalog.ServiceChanged.Follow(stages.Routers, s.serviceChanged)
	w.Virtual.Ranges.Follow(stages.Ranges, s.Served.Changed)
	w.Virtual.Counts.Follow(stages.Statuses, s.unreported.Mark)
	return s
}

// MembersChanged says that pods of a Network came, went, or changed how they are.
func (s *Stage) MembersChanged(name string) { s.touch(name) }

// AddressesChanged says that others have addresses of a Network.
func (s *Stage) AddressesChanged(name string) { s.unreported.Mark(name) }

// touch queues a Network, so that its rows and its status are compared again.
func (s *Stage) touch(name string) {
	s.unrouted.Mark(name)
	s.unreported.Mark(name)
}

func (s *Stage) reportAll() {
	for name := range s.networks {
		s.unreported.Mark(name)
	}
}

// Get is a Network; nil when there is none of that name.
func (s *Stage) Get(name string) *Network {
	if n := s.networks[name]; n != nil && n.Model != nil {
		return n
	}
	return nil
}

// home is the default Network; nil when there is none.
func (s *Stage) home() *Network { return s.networks[s.Cluster.Network] }

// Names are those of all Networks, in no order.
func (s *Stage) Names() []string {
	names := make([]string, 0, len(s.networks))
	for name, n := range s.networks {
		if n.Model != nil {
			names = append(names, name)
		}
	}
	return names
}

// Take takes Networks in; nil ones have gone. A Network's fate may hang on another's when both claim a vpcID.
func (s *Stage) Take(changed map[string]*model.Network) {
	changed = s.afford(changed)
	replan := s.requoted
	s.requoted = map[string]struct{}{}
	if len(changed) > 0 {
		clear(s.admitting)
	}
	for _, name := range pass.Sorted(changed) {
		n, m := s.networks[name], changed[name]
		if n == nil {
			n = &Network{Name: name, Default: name == s.Cluster.Network}
			s.networks[name] = n
		}
		s.index(replan, n, m)
		s.indexTenant(replan, n, m)
		if n.Model != nil && (m == nil || n.Model.UID != m.UID) {
			n.written, n.observed, n.reported, n.isolated, n.outward, n.late = false, 0, nil, "", nil, false
			s.Subnets.Drop(name)
			s.Replaced.Changed(name)
		}
		if (n.Model == nil) != (m == nil) || tenantOf(n.Model) != tenantOf(m) {
			s.moved.Mark(name)
		}
		s.takePeers(n, m)
		n.Model, n.wait = m, wait{}
		s.Changed.Changed(name)
		replan[name] = struct{}{}
	}
	s.noteWaiting()
	for _, name := range pass.Sorted(replan) {
		s.replan(s.networks[name])
	}
}

// index enters what a Network says now of others, and has those planned anew that claim the same vpcID, or did.
func (s *Stage) index(replan map[string]struct{}, n *Network, m *model.Network) {
	for _, vpc := range []string{vpcOf(n.Model), vpcOf(m)} {
		if vpc != "" {
			maps.Copy(replan, s.byVPC[vpc])
		}
	}
	if vpc := vpcOf(n.Model); vpc != "" {
		s.byVPC.Drop(vpc, n.Name)
	}
	if vpc := vpcOf(m); vpc != "" {
		s.byVPC.Add(vpc, n.Name)
	}
	if service, asks := s.asked(n.Model); asks {
		s.answered.Drop(service, n.Name)
	}
	if service, asks := s.asked(m); asks {
		s.answered.Add(service, n.Name)
	}
}

// asked is the Service that decides about where a Network's questions for names lead: the one that answers, or the cluster's own
// DNS, at whose addresses nobody is to.
func (s *Stage) asked(m *model.Network) (model.ServiceKey, bool) {
	switch {
	case m == nil:
	case m.DNS == model.DNSService:
		return model.ServiceKey(m.DNSService), true
	case m.DNS == model.DNSNone:
		return s.Cluster.DNS, true
	}
	return model.ServiceKey{}, false
}

func vpcOf(m *model.Network) string {
	if m == nil {
		return ""
	}
	return m.VPCID
}

// replan decides anew what a Network serves.
func (s *Stage) replan(n *Network) {
	s.touch(n.Name)
	s.replanned[n.Name] = struct{}{}
	s.unserved.Mark(n.Name)
	n.routed = false
	for _, name := range n.consumers {
		// Which service ranges it has concerns them, too: what they have of them, and what their own Services' addresses mean (Abroad).
		s.rejoin(name)
		s.Served.Changed(name)
	}
	s.noteFlat(n)
	s.Served.Changed(n.Name)
	s.Planned.Changed(n.Name)
	if n.Model == nil {
		n.Layout, n.Problems, n.leaving, n.denied = compile.Layout{}, nil, nil, nil
		s.number(n)
		return
	}
	if !n.Model.Finalized && !n.Model.Deleting {
		s.Sink.WriteFinalizer(n.Name, n.Model.UID, true)
	}
	if n.hangs() {
		// PlanFlats decides about all of them.
		return
	}
	n.Layout, n.Problems = compile.Plan(*n.Model, s.Cluster.Layout())
	s.noteFormer(n)
	n.Layout.Faces = !n.Faceless()
	n.Layout.Through = s.through(n)
	if first := s.firstWith(n.Model.VPCID); first != "" && first != n.Name {
		n.Layout.Subnets = nil
		n.Problems = append(n.Problems, model.Problemf(model.ReasonVPCIDInUse,
			"vpcID %q belongs to Network %q, which is older; nothing of this Network is served: give it a vpcID of its own or none",
			n.Model.VPCID, first))
	}
	if problem := s.overQuota(n); problem != nil {
		n.Layout.Subnets = nil
		n.Problems = slices.Insert(n.Problems, 0, *problem)
	}
	s.planned(n)
}

// planned says what is wrong with a Network, and gives out addresses of what it serves.
func (s *Stage) planned(n *Network) {
	// Its owner has heard of what was wrong before.
	var told []model.Problem
	if n.told.uid == n.Model.UID {
		told = n.told.problems
	}
	s.tell(n, told, n.Problems)
	n.told.uid, n.told.problems = n.Model.UID, n.Problems[:min(len(n.Problems), maxTold)]
	s.Subnets.Serve(n.Name, n.Model.UID, n.Layout.Subnets)
	s.number(n)
}

// maxTold bounds of how many problems of one kind a Network's owner is told at a time. The Network's status has all.
const maxTold = 8

// tell tells a Network's owner of the first problems that the owner was not told before.
func (s *Stage) tell(n *Network, told, problems []model.Problem) {
	for _, p := range problems[:min(len(problems), maxTold)] {
		if !slices.Contains(told, p) {
			s.Sink.Event(n.Model.Ref(), p)
		}
	}
}

// firstWith is the Network that a vpcID belongs to: the oldest that claims it.
func (s *Stage) firstWith(vpc string) string {
	var first *model.Network
	for name := range s.byVPC[vpc] {
		m := s.networks[name].Model
		if first == nil || m.Created.Before(first.Created) || (m.Created.Equal(first.Created) && m.Name < first.Name) {
			first = m
		}
	}
	if first == nil {
		return ""
	}
	return first.Name
}

// Layout is what a Network serves; nothing when there is none of that name.
func (s *Stage) Layout(name string) compile.Layout {
	if n := s.Get(name); n != nil {
		return n.Layout
	}
	return compile.Layout{}
}

// Serves reports whether a Network's rows are wanted.
func (s *Stage) Serves(name string) bool { return s.serves(s.networks[name]) }

func (s *Stage) serves(n *Network) bool {
	return n != nil && n.Model != nil && len(n.Layout.Subnets) > 0 && (!n.Model.Deleting || s.inUse(n)) && (n.home == nil || s.serves(n.home))
}

// inUse reports whether pods have addresses of a Network.
func (s *Stage) inUse(n *Network) bool { return len(s.Pods.Members(n.Name).Attached) > 0 }

// hangs reports whether the Network's subnets hang on the default Network's router.
func (n *Network) hangs() bool { return n.Model != nil && n.Model.Type == model.Flat && !n.Default }

// Faceless reports whether the Network's pods are known by their own addresses.
func (n *Network) Faceless() bool { return n.Default || n.hangs() }

// Space is the Network whose load balancers a Network's pods meet: flat Networks share the default one's.
func (s *Stage) Space(name string) string {
	if n := s.networks[name]; n != nil && n.hangs() {
		return s.Cluster.Network
	}
	return name
}

// Admits reports whether there is a Network of that name for a namespace. One that is not known is granted none.
func (s *Stage) Admits(name string, ns *model.Namespace) bool {
	n := s.Get(name)
	return n != nil && ns != nil && n.Admits(*ns)
}

// Admits reports whether pods of a namespace may attach.
func (n *Network) Admits(ns model.Namespace) bool {
	return visible.Looker{Network: n.Model, Standard: n.Default}.Admits(ns)
}

// Describe names subnets and their ranges.
func Describe(subnets []compile.SubnetLayout) string {
	var words []string
	for _, s := range subnets {
		var cidrs []string
		for _, r := range s.Ranges {
			cidrs = append(cidrs, r.CIDR.String())
		}
		words = append(words, fmt.Sprintf("%s (%s)", s.Name, strings.Join(cidrs, ", ")))
	}
	return strings.Join(words, ", ")
}
