package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/model"
)

// Sink takes the decisions that go back to the API server. Its methods do not block. A kube.Writer is one.
type Sink interface {
	WriteAttachments(pod model.PodKey, uid string, attachments []model.Attachment)
	// Forget drops what is not yet written on a pod.
	Forget(pod model.PodKey)
	WriteNetworkStatus(name, uid string, status model.NetworkStatus)
	// WriteViews shows namespaces what they see of Networks; nil takes a view away. After the first call, views that no call
	// named are wanted no more.
	WriteViews(changed map[model.ViewKey]*model.View)
	WriteFinalizer(name, uid string, present bool)
	WriteNode(name, uid string, n model.NodeNetwork)
	// WriteServiceAddresses shows on a Service what it has; nil takes the annotation away.
	WriteServiceAddresses(service model.ServiceKey, uid string, a *model.ServiceAddresses)
	// WriteMirrors replaces the mirrors of each of the Services. After the first call, mirrors that no call named are
	// wanted no more.
	WriteMirrors(of map[model.ServiceKey][]model.Mirror)
	PodEvent(pod model.PodKey, uid string, p model.Problem)
	NamespaceEvent(name, uid string, p model.Problem)
	NetworkEvent(name, uid string, p model.Problem)
	NodeEvent(name, uid string, p model.Problem)
	ServiceEvent(service model.ServiceKey, uid string, p model.Problem)
	WriteGatewayClassStatus(name, uid string, status model.GatewayClassStatus)
	WriteGatewayStatus(gateway model.GatewayKey, uid string, status model.GatewayStatus)
	WriteRouteStatus(route model.RouteKey, uid string, status model.RouteStatus)
	PolicyEvent(policy model.PolicyKey, uid string, p model.Problem)
}

// Defaults are the controller's settings that decide where pods go.
type Defaults struct {
	// Network is where pods go that make no choice.
	Network string
	// Subnet is the CIDR of a Network that lists none.
	Subnet netip.Prefix
	// Faces are the ranges that pods of other Networks than the default one get their faces from: at most one per IP
	// family. With none, Kubernetes sees pods under their own addresses, which may not be unique.
	Faces []netip.Prefix
	// FaceBlock is the size of each node's block of them, as the number of its bits; 0: that of 512 addresses. It does not
	// change while pods run.
	FaceBlock int
	// Services are the cluster's own ranges of Services: no Network can have addresses of them.
	Services []netip.Prefix
	// Gateways are the ranges of the addresses of Gateways, in each Network anew: at most one per IP family. They are used
	// by nothing else: a subnet keeps its part of them from its Network's Gateways.
	Gateways []netip.Prefix
	// Infrastructure are the namespaces that are infrastructure without a label.
	Infrastructure []string
	// DNS is the Service whose addresses kubelets tell pods to ask for names.
	DNS model.ServiceKey
	// Connections is how many connections a pod may have at a time that its node follows inside the Network, made by it or to it. 0: any
	// number.
	Connections uint32
}

// cluster is what of the settings decides what a Network serves.
func (d Defaults) cluster() compile.Cluster {
	return compile.Cluster{DefaultSubnet: d.Subnet, Services: d.Services}
}

// State is what the controller knows of the cluster and what it decided about it. One goroutine uses it.
type State struct {
	defaults   Defaults
	faces      []*alloc.Blocks
	sink       Sink
	graph      *graph.Graph
	networks   map[string]*network
	namespaces map[string]*model.Namespace
	pods       map[model.PodKey]*pod
	// warned are the namespaces of whose keys something was said.
	warned map[string]warnings
	// byNamespace finds the pods that a namespace's labels decide about.
	byNamespace map[string]map[model.PodKey]struct{}
	// admitting are the names of the Networks that admit a namespace, for those who were asked about.
	admitting map[string][]string
	// byVPC finds the Networks that claim a vpcID.
	byVPC map[string]map[string]struct{}
	// touched Networks have a new status; freed ones have addresses again for pods that wait.
	touched, freed map[string]struct{}
	// unfaced nodes have faces again for pods that wait.
	unfaced map[string]struct{}
	nodes   map[string]*node
	// answered finds the Networks whose names a Service answers for.
	answered map[model.ServiceKey]map[string]struct{}
	// former Networks serve subnets that they do not list any more.
	former map[string]struct{}
	// moved nodes, and all nodes when the default Network is among the replanned, get their place anew.
	moved, replanned map[string]struct{}
	// unsettled: the infrastructure's addresses have changed, and each Network is compared with them again.
	unsettled bool
	// housed: the default Network is there for nodes.
	housed bool
	// homeless nodes lack an address in the default Network or a block of faces, because none is free.
	homeless map[string]struct{}
	guard    guard
	flats    flats
	// nodeAddresses are those of all nodes.
	nodeAddresses map[netip.Addr]struct{}
	reports       reports
	services      services
	vips          vipChanges
	gateways      gateways
	policies      policies
	departures    departures
	successions   successions
	knowledge     knowledge
	views         views
}

// pod is a pod and where it is.
type pod struct {
	*model.Pod
	// network is the one it belongs to, whether it may attach or not.
	network string
	// attachment is its interface, whose addresses it holds; nil when it has none.
	attachment *model.Attachment
	// faced is the node whose faces it holds or waits for; empty when it needs none.
	faced string
	// plugged: the interface has its port.
	plugged bool
	// problem is why not; nil while all is well or its namespace is not known yet.
	problem *model.Problem
	// warned is what was said of its keys.
	warned warnings
}

// NewState makes the state of an empty cluster whose facts go to g and whose reports go to sink.
func NewState(defaults Defaults, g *graph.Graph, sink Sink) *State {
	s := &State{
		defaults: defaults, sink: sink, graph: g,
		networks:    map[string]*network{},
		namespaces:  map[string]*model.Namespace{},
		pods:        map[model.PodKey]*pod{},
		warned:      map[string]warnings{},
		byNamespace: map[string]map[model.PodKey]struct{}{},
		admitting:   map[string][]string{},
		byVPC:       map[string]map[string]struct{}{},
		touched:     map[string]struct{}{},
		freed:       map[string]struct{}{},
		unfaced:     map[string]struct{}{},
		nodes:       map[string]*node{},
		former:      map[string]struct{}{},
		answered:    map[model.ServiceKey]map[string]struct{}{},
		moved:       map[string]struct{}{},
		replanned:   map[string]struct{}{},
		homeless:    map[string]struct{}{},
		reports:     newReports(),
		services:    newServices(),
		guard:       newGuard(),
		flats:       flats{names: map[string]struct{}{}},
		vips:        newVIPChanges(),
		gateways:    newGateways(),
		policies:    newPolicies(),
		departures:  newDepartures(),
		successions: newSuccessions(),
		knowledge:   newKnowledge(),
		views:       newViews(),
	}
	for _, of := range defaults.Faces {
		// Whoever reads the flag has refused what is no range.
		if r, err := faceRange(of, cmp.Or(defaults.FaceBlock, faceBlock)); err == nil {
			s.faces = append(s.faces, r)
		}
	}
	return s
}

// Turn moves time on: what the next Apply decides is of that moment. Some of it changes by nothing but time.
func (s *State) Turn(now time.Time) {
	s.departures.now, s.successions.now, s.knowledge.now = now, now, now
	for _, owner := range slices.Concat(s.departures.turn(now), s.successions.turn(now)) {
		if key, ok := serviceOf(owner); ok {
			s.services.dirty[key] = struct{}{}
		}
		if key, ok := gatewayOf(owner); ok {
			s.gateways.dirty[key] = struct{}{}
		}
	}
}

// Due is when something changes by itself next; false when nothing does.
func (s *State) Due() (time.Time, bool) {
	due := earlier(s.departures.next, s.successions.next)
	if !s.knowledge.held {
		due = earlier(due, s.views.due())
	}
	return due, !due.IsZero()
}

// Apply takes changes in: afterwards the graph wants what the cluster as a whole asks for. Pods that have
// addresses are looked at before pods that want one, and older before younger, so that nobody loses an
// address to a newcomer.
func (s *State) Apply(c model.Changes) {
	dirty := map[model.PodKey]struct{}{}
	for _, name := range slices.Sorted(maps.Keys(c.Namespaces)) {
		s.applyNamespace(name, c.Namespaces[name], dirty)
	}
	s.applyPolicies(c.Policies)
	// Before pods get addresses: not those that Services have.
	s.wakeForClusterIPs(c.Services)
	s.services.apply(c.Services, c.Slices)
	s.applyNetworks(c.Networks, dirty)
	s.noteInfraServices(c.Services)
	for key, p := range c.Pods {
		s.applyPod(key, p, dirty)
	}
	s.applyReports(c.Reports)
	s.applyNodes(c.Nodes, dirty)
	s.planFlats(dirty)
	s.wake(dirty)
	s.evaluateAll(dirty)
	s.closeFormer()
	s.placeNodes()
	// What came free meanwhile goes to those who wait for it; that frees nothing else.
	waiting := map[model.PodKey]struct{}{}
	s.wake(waiting)
	clear(s.freed)
	clear(s.unfaced)
	s.evaluateAll(waiting)
	s.keepGuard()
	s.place()
	s.touchDNS(c.Services)
	for key := range c.Services {
		s.touchAnswered(key, key == s.defaults.DNS)
	}
	s.settleVIPs()
	// What Gateways have by their status they hold before Services claim addresses of the same ranges, and the other way round.
	s.applyGateways(c)
	s.keepGateways()
	for again := true; again; again = len(s.vips.freed) > 0 {
		s.addressServices()
		s.gateways.touchServices(s.services.dirty)
		s.serve()
		s.serveGateways()
	}
	s.police()
	s.report()
}

func (s *State) applyNamespace(name string, ns *model.Namespace, dirty map[model.PodKey]struct{}) {
	old := s.namespaces[name]
	delete(s.admitting, name)
	s.warnNamespace(name, ns)
	if ns == nil {
		delete(s.namespaces, name)
	} else {
		s.namespaces[name] = ns
	}
	if old != nil && ns != nil && maps.Equal(old.Labels, ns.Labels) {
		return
	}
	s.touchViewsOf(name)
	maps.Copy(dirty, s.byNamespace[name])
	s.services.touchNamespace(name)
	s.gateways.touch(concern{what: aboutNamespace, namespace: name})
}

func (s *State) applyPod(key model.PodKey, p *model.Pod, dirty map[model.PodKey]struct{}) {
	old := s.pods[key]
	if old != nil && (p == nil || p.UID != old.UID) {
		s.leave(old)
		delete(s.pods, key)
		drop(s.byNamespace, key.Namespace, key)
		old = nil
	}
	if old == nil {
		// An address is a node's, or nobody's, by whether a pod is known there.
		s.services.touchPod(key)
	}
	if p == nil {
		return
	}
	if old == nil {
		old = &pod{}
		s.pods[key] = old
		add(s.byNamespace, key.Namespace, key)
	} else if old.echoes(p) {
		old.Pod = p
		return
	}
	old.Pod = p
	s.warnPod(old)
	dirty[key] = struct{}{}
}

// wake marks the pods that wait for addresses or faces which have come free.
func (s *State) wake(dirty map[model.PodKey]struct{}) {
	for name := range s.freed {
		if n := s.networks[name]; n != nil {
			maps.Copy(dirty, n.waiting)
		}
	}
	for name := range s.unfaced {
		if n := s.nodes[name]; n != nil {
			maps.Copy(dirty, n.short)
		}
	}
}

// evaluateAll decides about pods: those with an address first, then by age.
func (s *State) evaluateAll(keys map[model.PodKey]struct{}) {
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
		s.evaluate(p)
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

// report hands out the status of each Network that was touched.
func (s *State) report() {
	if s.knowledge.held {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.touched)) {
		n := s.networks[name]
		if n == nil || n.model == nil {
			continue
		}
		status := s.statusOf(n)
		s.sink.WriteNetworkStatus(name, n.model.UID, status)
		if state := stateOf(status); state != n.seen {
			n.seen = state
			s.views.touchNetwork(name)
		}
	}
	clear(s.touched)
	s.view()
}

// statusOf is what a Network reports of itself, with what depends on other objects.
func (s *State) statusOf(n *network) model.NetworkStatus {
	status := n.status(n.conflicts, s.knowledge.away)
	if c, has := s.dnsReady(n); has {
		status.Conditions = append(status.Conditions, c)
		slices.SortFunc(status.Conditions, func(a, b model.Condition) int { return cmp.Compare(a.Type, b.Type) })
	}
	return status
}

func add[K, V comparable](sets map[K]map[V]struct{}, k K, v V) {
	if sets[k] == nil {
		sets[k] = map[V]struct{}{}
	}
	sets[k][v] = struct{}{}
}

func drop[K, V comparable](sets map[K]map[V]struct{}, k K, v V) {
	delete(sets[k], v)
	if len(sets[k]) == 0 {
		delete(sets, k)
	}
}
