// Package cluster holds the objects that several stages look at, their indexes, the settings, and what the infrastructure's addresses
// are. It takes changes in and tells by topics what has changed; it decides nothing.
package cluster

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// Settings are the cluster's, which decide where pods go.
type Settings struct {
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
	// Others are further ranges whose addresses mean the same to pods of all Networks: infrastructure's, and load balancers'.
	Others []netip.Prefix
	// Infrastructure are the namespaces that are infrastructure without a label.
	Infrastructure []string
	// TenantNetwork is what the default Networks of Tenants are made from that have no template of their own.
	TenantNetwork model.NetworkTemplate
	// DNS is the Service whose addresses kubelets tell pods to ask for names.
	DNS model.ServiceKey
	// NameServers are those addresses, as far as whoever set the cluster up has named them.
	NameServers []netip.Addr
	// Connections is how many connections a pod may have at a time that its node follows inside the Network, made by it or to it. 0: any
	// number.
	Connections uint32
	// MaxJoined is how many Networks mode Routed joins, directly and by others; 0: compatible.MaxJoined.
	MaxJoined int
	// NetworkChanges is how many times at once a tenant changes its Networks, where ovn-northd computes everything anew for that; 0: 8.
	NetworkChanges int
}

// Layout is what of the settings decides what a Network serves.
func (s Settings) Layout() compile.Cluster {
	return compile.Cluster{DefaultSubnet: s.Subnet, Services: s.Services}
}

// Cluster is what is known of the cluster as a whole.
type Cluster struct {
	Settings
	// Namespaces by their names, which only the cluster changes; and PodsIn the pods of each, as the stage of pods knows them.
	Namespaces map[string]*model.Namespace
	PodsIn     pass.Index[string, model.PodKey]
	// Tenants by their names, which only the cluster changes.
	Tenants map[string]*model.Tenant
	// NamespaceChanged tells of namespaces with other labels, or that came or went, NodeChanged of nodes with other labels or
	// addresses. HostChanged tells of addresses that begin
	// or end to be a node's, AddressesChanged that the infrastructure has others, and NamelessChanged that other nodes cannot
	// answer for names.
	NamespaceChanged, NodeChanged *pass.Topic[string]
	// TenantChanged tells of Tenants that came, changed or went.
	TenantChanged                     *pass.Topic[string]
	HostChanged                       *pass.Topic[netip.Addr]
	AddressesChanged, NamelessChanged *pass.Topic[struct{}]

	nodes   map[string]*model.Node
	reports map[string]*model.NodeReport
	// hosts are the addresses of all nodes, and reported those that nodes' agents tell of.
	hosts, reported map[netip.Addr]struct{}
	// nameless are the nodes whose agents do not know the cluster's DNS, sorted.
	nameless []string
}

// New makes an empty cluster, which changes in a stage.
func New(settings Settings, stage pass.Stage) *Cluster {
	return &Cluster{
		Settings: settings, Namespaces: map[string]*model.Namespace{}, PodsIn: pass.Index[string, model.PodKey]{},
		Tenants: map[string]*model.Tenant{}, TenantChanged: pass.NewTopic[string](stage),
		NamespaceChanged: pass.NewTopic[string](stage), NodeChanged: pass.NewTopic[string](stage), HostChanged: pass.NewTopic[netip.Addr](stage),
		AddressesChanged: pass.NewTopic[struct{}](stage), NamelessChanged: pass.NewTopic[struct{}](stage),
		nodes: map[string]*model.Node{}, reports: map[string]*model.NodeReport{},
		hosts: map[netip.Addr]struct{}{}, reported: map[netip.Addr]struct{}{},
	}
}

// TakeNamespaces takes namespaces in; nil ones have gone.
func (c *Cluster) TakeNamespaces(changed map[string]*model.Namespace) {
	for _, name := range pass.Sorted(changed) {
		old, ns := c.Namespaces[name], changed[name]
		if ns == nil {
			delete(c.Namespaces, name)
		} else {
			c.Namespaces[name] = ns
		}
		if old == nil || ns == nil || !maps.Equal(old.Labels, ns.Labels) {
			c.NamespaceChanged.Changed(name)
		}
	}
}

// HomeOf is the name of the Network that a namespace's pods, Services and Gateways belong to, unless pods choose otherwise.
func (c *Cluster) HomeOf(ns model.Namespace) string { return visible.Home(ns, c.Network) }

// IsInfrastructure reports whether a namespace's pods in the default Network are infrastructure. One that is not known is not.
func (c *Cluster) IsInfrastructure(namespace string) bool {
	ns := c.Namespaces[namespace]
	return ns != nil && (ns.Infrastructure() || slices.Contains(c.Infrastructure, ns.Name))
}
