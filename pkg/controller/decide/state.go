package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/absent"
	"github.com/atoll-net/atoll/pkg/controller/decide/attach"
	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/database"
	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/gateways"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/controller/decide/nodes"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/controller/decide/policies"
	"github.com/atoll-net/atoll/pkg/controller/decide/services"
	"github.com/atoll-net/atoll/pkg/controller/decide/tenants"
	"github.com/atoll-net/atoll/pkg/controller/decide/views"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Sink takes the decisions that go back to the API server. Its methods do not block. A kube.Writer is one.
type Sink interface {
	networks.Sink
	attach.Sink
	nodes.Sink
	services.Sink
	gateways.Sink
	policies.Sink
	views.Sink
	tenants.Sink
}

// Discard is a Sink that takes nothing in.
type Discard struct{}

var _ Sink = Discard{}

func (Discard) Event(model.ObjectRef, model.Problem) {}

func (Discard) WriteNetworkStatus(string, string, model.NetworkStatus) {}
func (Discard) WriteFinalizer(string, string, bool)                    {}

func (Discard) WriteAttachments(model.PodKey, string, []model.Attachment) {}
func (Discard) Forget(model.PodKey)                                       {}

func (Discard) WriteNode(string, string, model.NodeNetwork) {}

func (Discard) WriteServiceAddresses(model.ServiceKey, string, *model.ServiceAddresses) {}
func (Discard) WriteMirrors(map[model.ServiceKey][]model.Mirror)                        {}

func (Discard) WriteGatewayClassStatus(string, string, model.GatewayClassStatus) {}
func (Discard) WriteGatewayStatus(model.GatewayKey, string, model.GatewayStatus) {}
func (Discard) WriteRouteStatus(model.RouteKey, string, model.RouteStatus)       {}

func (Discard) WriteViews(map[model.ViewKey]*model.View) {}

func (Discard) WriteTenantStatus(string, string, model.TenantStatus) {}
func (Discard) WriteTenantFinalizer(string, string, bool)            {}
func (Discard) MakeNetwork(model.DefaultNetwork)                     {}
func (Discard) DeleteNetwork(string, string)                         {}
func (Discard) WriteTenantRoles(map[string]*model.TenantRole)        {}

// Defaults are the controller's settings that decide where pods go.
type Defaults = cluster.Settings

// State is what the controller knows of the cluster and what it decided about it. One goroutine uses it.
type State struct {
	order    *pass.Order
	database *database.Knowledge
	cluster  *cluster.Cluster
	catalog  *cluster.Catalog
	absent   *absent.Nodes
	// subnets, faces and virtual are the ledger.
	subnets *ledger.Subnets
	faces   *ledger.Faces
	virtual *ledger.Virtual
	// serviceQuotas and gatewayQuotas are of tenants.
	serviceQuotas *ledger.Quotas[model.ServiceKey]
	gatewayQuotas *ledger.Quotas[model.GatewayKey]
	// balancers are those of Services and Gateways.
	balancers *drain.Balancers
	networks  *networks.Stage
	pods      *attach.Stage
	nodes     *nodes.Stage
	services  *services.Stage
	gateways  *gateways.Stage
	policies  *policies.Stage
	views     *views.Stage
	tenants   *tenants.Stage
	handlers  map[nb.Kind]handler
	// steps are those of a pass, by their stages, and incoming is what the one that runs takes in.
	steps    map[string]func()
	incoming model.Changes
}

// NewState makes the state of an empty cluster whose facts go to g and whose reports go to sink.
func NewState(defaults Defaults, g *graph.Graph, sink Sink) *State {
	order := newOrder()
	at := order.Stage
	s := &State{
		order: order, database: &database.Knowledge{},
		cluster: cluster.New(defaults, at(stageCluster)), catalog: cluster.NewCatalog(at(stageCluster)),
		subnets: ledger.NewSubnets(at(stageNodes)), virtual: ledger.NewVirtual(shared(defaults), at(stageRanges), at(stageGrants)),
		faces:     ledger.NewFaces(defaults.Faces, cmp.Or(defaults.FaceBlock, model.FaceBlockBits), at(stageNodes)),
		balancers: drain.NewBalancers(g, at(stageCluster)),
	}
	s.serviceQuotas = ledger.NewQuotas[model.ServiceKey]("services", s.cluster, func(t *model.Tenant) model.Quota { return t.Services },
		at(stageCluster))
	s.gatewayQuotas = ledger.NewQuotas[model.GatewayKey]("gateways", s.cluster, func(t *model.Tenant) model.Quota { return t.Gateways },
		at(stageCluster))
	s.networks = networks.New(networks.World{
		Cluster: s.cluster, Catalog: s.catalog, Subnets: s.subnets, Faces: s.faces, Virtual: s.virtual,
		Graph: g, Database: s.database, Sink: sink,
	}, networks.Stages{
		Objects: at(stageCluster), Layouts: at(stageLayouts), Closings: at(stageClosings), Routers: at(stageRouters), Ranges: at(stageRanges),
		Statuses: at(stageStatuses),
	})
	spare := ledger.Spare{Cluster: s.cluster, Catalog: s.catalog}
	s.pods = attach.New(attach.World{
		Cluster: s.cluster, Catalog: s.catalog, Subnets: s.subnets, Faces: s.faces, Spare: spare, Networks: s.networks,
		Graph: g, Database: s.database, Sink: sink,
	}, attach.Stages{Blocks: at(stageBlocks), Refills: at(stageRefills), Leaves: at(stageLeaves)})
	s.nodes = nodes.New(nodes.World{
		Home: defaults.Network, Subnets: s.subnets, Faces: s.faces, Spare: spare, Networks: s.networks, Graph: g, Sink: sink,
	}, nodes.Stages{Blocks: at(stageBlocks), Places: at(stageNodes), Leaves: at(stageLeaves)})
	s.services = services.New(services.World{
		Cluster: s.cluster, Catalog: s.catalog, Virtual: s.virtual, Quotas: s.serviceQuotas, Balancers: s.balancers, Graph: g,
		Networks: servicesView{s}, Pods: servicesView{s},
		NetworkChanged: s.networks.Served, PodChanged: s.pods.Plugged, FaceGiven: s.pods.FaceGiven,
		InfrastructureChanged: s.networks.InfrastructureChanged,
	}, sink, at(stageClaims), at(stageServices))
	s.gateways = s.newGateways(g, sink)
	s.policies = s.newPolicies(g, sink)
	seen := viewed{s.networks, s}
	s.views = views.New(s.cluster, seen, seen, sink, at(stageStatuses), s.networks.Changed, s.networks.Seen, s.pods.Changed)
	s.tenants = s.newTenants(sink)
	s.handlers, s.steps = s.newHandlers(), s.newSteps()
	s.absent = absent.New(defaults.Network, s.pods, s.nodes)
	// Some read results of stages that are made after them, in a later stage of theirs.
	s.networks.Pods, s.networks.Resolvers = s.pods, resolvers{s.services}
	s.pods.Nodes, s.pods.Policies = s.nodes, s.policies
	s.nodes.Policies = s.policies
	s.follow()
	return s
}

// shared are the ranges of the addresses of Gateways, without faces and the cluster's Services.
func shared(defaults Defaults) ledger.Shared {
	out := ledger.Shared{Ranges: defaults.Gateways}
	for _, cidr := range slices.Concat(defaults.Faces, defaults.Services) {
		out.Reserved = append(out.Reserved, compile.AddrRangeOf(cidr))
	}
	return out
}

// follow has stages hear of those that are made after them.
func (s *State) follow() {
	at := s.order.Stage
	s.pods.MembersChanged.Follow(at(stageRouters), s.networks.MembersChanged)
	s.nodes.AddressesChanged.Follow(at(stageStatuses), s.networks.AddressesChanged)
	s.services.Answering.Follow(at(stageStatuses), s.networks.AddressesChanged)
	s.nodes.Changed.Follow(at(stageRefills), s.pods.NodeSeen)
	s.pods.NodeChanged.Follow(at(stageNodes), s.nodes.BlocksTaken)
	s.policies.GroupsChanged.Follow(at(stageJoins), s.pods.GroupsChanged)
	s.policies.JudgingChanged.Follow(at(stageJoins), s.nodes.JudgingChanged)
}

// newHandlers are who hears of the rows of each kind of owners.
func (s *State) newHandlers() map[nb.Kind]handler {
	policies := handler{func(owner nb.Owner) {
		s.policies.Committed(owner)
		s.writePorts()
	}, s.policies.Refused}
	return map[nb.Kind]handler{
		nb.KindNetwork:              {s.networks.Committed, s.networks.Refused},
		nb.KindNode:                 {nil, s.nodes.Refused},
		nb.KindPod:                  {s.pods.Committed, s.pods.Refused},
		nb.KindService:              {nil, s.services.Refused},
		nb.KindGateway:              {s.gatewayCommitted, s.gatewayRefused},
		nb.KindNetworkPolicy:        policies,
		nb.KindClusterNetworkPolicy: policies,
	}
}

// Turn moves time on: what the next Apply decides is of that moment. Some of it changes by nothing but time.
func (s *State) Turn(now time.Time) {
	s.database.Now = now
	s.networks.Turn(now)
	s.absent.Turn(now)
	s.balancers.Turn(now)
	s.pods.Turn(now)
	s.services.Turn(now)
}

// Due is when something changes by itself next; false when nothing does.
func (s *State) Due() (time.Time, bool) {
	due := s.networks.Next()
	for _, next := range []time.Time{s.balancers.Next(), s.absent.Next(), s.pods.Next(), s.services.Next()} {
		due = pass.Earlier(due, next)
	}
	if !s.database.Held {
		due = pass.Earlier(due, s.views.Due())
	}
	return due, !due.IsZero()
}

// The stages of a pass, in their order.
const (
	// stageCluster takes objects in. stageBlocks gives nodes their blocks of faces.
	stageCluster = "cluster"
	stageBlocks  = "blocks"
	// stageLayouts decides what Networks serve, and stageAttachments where pods are. stageClosings takes from Networks what no pod
	// uses any more, stageNodes decides where nodes are, and stageRefills gives what has come free to the pods that wait for it.
	stageLayouts     = "layouts"
	stageAttachments = "attachments"
	stageClosings    = "closings"
	stageNodes       = "nodes"
	stageRefills     = "refills"
	// stageRouters gives Networks their rows.
	stageRouters = "routers"
	// stageRanges decides which service ranges Networks serve. In stageClaims Services and Gateways say which virtual addresses they
	// ask for, and in stageGrants they get them.
	stageRanges = "ranges"
	stageClaims = "claims"
	stageGrants = "grants"
	// stageServices gives Services their rows, and stageGateways Gateways, whose routes lead where Services lead.
	stageServices = "services"
	stageGateways = "gateways"
	// stagePolicies makes the port groups that policies need. Ports join them in stageJoins, before stageACLs writes the policies
	// and removes port groups, and leave them in stageLeaves.
	stagePolicies = "policies"
	stageJoins    = "joins"
	stageACLs     = "acls"
	stageLeaves   = "leaves"
	// stageStatuses hands out what Networks report.
	stageStatuses = "statuses"
)

func newOrder() *pass.Order {
	return pass.NewOrder(
		stageCluster, stageBlocks, stageLayouts, stageAttachments, stageClosings, stageNodes, stageRefills, stageRouters, stageRanges,
		stageClaims, stageGrants, stageServices, stageGateways, stagePolicies, stageJoins, stageACLs, stageLeaves, stageStatuses,
	)
}

// Apply takes changes in: afterwards the graph wants what the cluster as a whole asks for. Pods that have
// addresses are looked at before pods that want one, and older before younger, so that nobody loses an
// address to a newcomer.
func (s *State) Apply(c model.Changes) {
	s.incoming = c
	s.order.Run(s.steps)
	s.incoming = model.Changes{}
}

// newSteps are the steps of a pass.
func (s *State) newSteps() map[string]func() {
	return map[string]func(){
		stageCluster: func() { s.takeIn(s.incoming) },
		stageBlocks: func() {
			s.nodes.Take(s.incoming.Nodes)
			s.pods.Reclaim()
			s.nodes.Give()
		},
		stageLayouts:     s.networks.PlanFlats,
		stageAttachments: s.pods.Decide,
		stageClosings:    s.networks.Close,
		stageNodes:       s.nodes.Place,
		stageRefills:     s.pods.Decide,
		stageRouters:     s.networks.Route,
		stageRanges:      s.networks.ServeRanges,
		stageClaims: func() {
			s.gateways.Take(s.incoming)
			s.services.Claim()
			s.gateways.Claim()
		},
		stageGrants:   s.virtual.Settle,
		stageServices: s.services.Compile,
		stageGateways: func() {
			s.gateways.Compile()
			s.reportGateways()
		},
		stagePolicies: func() { s.policies.Decide(s.incoming.Policies) },
		stageJoins:    s.writePorts,
		stageACLs:     s.policies.Write,
		stageLeaves:   s.writePorts,
		stageStatuses: s.report,
	}
}

// Mistakes are marks that were set on stages which had run: what they concern waits for the next pass. There are none.
func (s *State) Mistakes() []string { return s.order.Mistakes() }

// takeIn takes objects in, and marks what they decide about.
func (s *State) takeIn(c model.Changes) {
	s.cluster.TakeNamespaces(c.Namespaces)
	s.cluster.TakeTenants(c.Tenants)
	s.catalog.Take(c.Services, c.Slices)
	s.networks.Take(c.Networks)
	s.pods.Take(c.Namespaces, c.Pods)
	s.incoming.Nodes = s.absent.Take(c)
	s.cluster.TakeNodes(s.incoming.Nodes)
	s.cluster.TakeReports(c.Reports)
}

// writePorts writes the ports of pods and nodes, and their places in port groups.
func (s *State) writePorts() {
	s.pods.DeletePorts()
	s.nodes.DeletePorts()
	s.nodes.WritePorts()
	s.pods.WritePorts()
}

// report hands out the statuses of Networks and Tenants, and what namespaces see of Networks.
func (s *State) report() {
	s.networks.Report()
	if !s.database.Held {
		s.tenants.Report()
		s.views.Show(s.database.Now)
	}
}

// Hold has statuses wait for Compared, or Disconnected.
func (s *State) Hold() { s.database.Held = true }

// Compared says that the database has been compared with what is wanted as a whole: what is reported from here on is known.
func (s *State) Compared() {
	s.database.Held = false
	if !s.database.Away.IsZero() {
		s.database.Away = time.Time{}
		s.networks.DatabaseChanged()
	}
	s.reportGateways()
	s.report()
}

// Disconnected says that the database has been away since then: what it holds is not known until it has been compared again.
func (s *State) Disconnected(since time.Time) {
	s.database.Held = false
	if s.database.Away.IsZero() {
		s.database.Away = since
		s.networks.DatabaseChanged()
		s.gateways.Disconnected()
		s.reportGateways()
	}
	s.report()
}

// TellWaiting tells new pods that have waited for the database for some time what they wait for.
func (s *State) TellWaiting(now time.Time) { s.pods.TellWaiting(now) }

// Share names what a namespace counts as where tenants share something.
func (s *State) Share(namespace string) string { return s.cluster.Share(namespace) }
