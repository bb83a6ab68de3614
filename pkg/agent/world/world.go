// Package world holds what of the cluster decides what a node does for its pods. In flow Networks, nodes and their reports, the
// Kubernetes API's addresses and what OVN uses, as they were last seen; out flow descriptions of portholes and of the node's own
// side, which package porthole makes, and why a pod cannot have one yet.
//
// Nothing is kept that a restart would need, and nothing is done here.
package world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Infrastructure is what the AtollConfig says of the cluster's infrastructure, beside what else is read from the API.
type Infrastructure struct {
	// DNS are the cluster's DNS addresses, as kubelet gives them to pods. None: no porthole serves names.
	DNS []netip.Addr
	// Services are the ranges of Services' addresses, Faces those of faces, Others what else no Network may reach without
	// direct access, and Closed what none may reach with it either.
	Services, Faces, Others, Closed []netip.Prefix
	// Balancers are the ranges of load balancers' addresses that pods of flat Networks reach by way of kube-proxy.
	Balancers []netip.Prefix
	// Gateways are the ranges of addresses that each Network's Gateways have.
	Gateways []netip.Prefix
	// Nodes are the ranges of nodes and of flat Networks' pods. They decide about nothing but who dials what in other Networks.
	Nodes []netip.Prefix
	// DefaultSubnet is what a Network that lists no subnet gets from the controller.
	DefaultSubnet netip.Prefix
	// Default is the name of the cluster's default Network.
	Default string
	// MaxJoined is how many Networks mode Routed joins, directly and by others.
	MaxJoined int
	// MaxConnections is how many connections a pod may have at a time past its Network; 0 is any number.
	MaxConnections uint32
}

// Kind is something that is watched.
type Kind string

// The kinds that portholes are made from.
const (
	Networks  Kind = "networks"
	Nodes     Kind = "nodes"
	Service   Kind = "service default/kubernetes"
	Endpoints Kind = "endpoints of default/kubernetes"
	Reports   Kind = "node reports"
	Settings  Kind = "settings (AtollConfig cluster)"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Networks, Nodes, Service, Endpoints, Reports, Settings} }

// World is the cluster as the API server last reported it, as far as portholes need it. The watches write, requests and
// sweeps read.
type World struct {
	self  string
	infra Infrastructure
	// changed is sent after each change, and wakes who follows all of them; waiting are those who wait for something.
	changed wake.Signal
	waiting wake.Waiters[struct{}]

	mu sync.Mutex
	// networks by UID: one that is made anew under its name is another.
	networks map[string]*model.Network
	peers    *peers
	nodes    map[string]*model.Node
	// remembered: what the node itself was given is not written on its Node now. See SetNode.
	remembered bool
	// reports are what the nodes' agents say of them, by node.
	reports map[string]*model.NodeReport
	// gone are nodes whose Nodes have gone, and unsaid those whose reports have gone with these: each is kept until then.
	gone, unsaid map[string]time.Time
	// unregistered: the node's own Node has gone.
	unregistered bool
	// shutOut are the nodes that are shut out; nil: nobody knows.
	shutOut *model.ShutOut
	// api are the addresses of the Service, servers those of its endpoints, by slice.
	api     []netip.AddrPort
	servers map[string][]netip.AddrPort
	// machines are the addresses of all that the API is served from, ready or not, by slice.
	machines map[string][]netip.Addr
	underlay underlay
	// wired: the underlay has been read.
	wired bool
	// local are the node's own addresses, of which the API need not know.
	local   []netip.Addr
	missing map[Kind]bool
}

// New makes the world of a node, of which nothing has been seen.
func New(self string) *World {
	w := &World{
		self:     self,
		changed:  wake.NewSignal(),
		networks: map[string]*model.Network{},
		nodes:    map[string]*model.Node{},
		reports:  map[string]*model.NodeReport{},
		gone:     map[string]time.Time{},
		unsaid:   map[string]time.Time{},
		servers:  map[string][]netip.AddrPort{},
		machines: map[string][]netip.Addr{},
		missing:  map[Kind]bool{},
	}
	w.peers = newPeers(w.infra, nil)
	for _, k := range Kinds() {
		w.missing[k] = true
	}
	return w
}

// Changed yields after a change of what portholes are made from. One signal may stand for many.
func (w *World) Changed() <-chan struct{} { return w.changed }

// update changes the world, and tells everyone who waits unless change reports that nothing is new: all portholes are
// looked at then.
func (w *World) update(change func() (news bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !change() {
		return
	}
	w.waiting.Wake(struct{}{})
	w.changed.Send()
}

// SetInfrastructure records what the AtollConfig says.
func (w *World) SetInfrastructure(infra Infrastructure) {
	w.update(func() bool {
		if reflect.DeepEqual(w.infra, infra) {
			return false
		}
		w.infra = infra
		w.peers = newPeers(infra, w.networks)
		return true
	})
}

// SetNetwork records a Network. What only its status says is no news: that changes with every pod of the cluster.
func (w *World) SetNetwork(n *model.Network) {
	w.update(func() bool {
		if !record(w.networks, n.UID, n) {
			return false
		}
		w.peers.set(n)
		return true
	})
}

func (w *World) DropNetwork(uid string) {
	w.update(func() bool {
		if n := w.networks[uid]; n != nil {
			w.peers.drop(n)
		}
		return forget(w.networks, uid)
	})
}

func (w *World) SetSynced(k Kind) { w.update(func() bool { return forget(w.missing, k) }) }

func (w *World) SetServers(slice string, a []netip.AddrPort) {
	w.update(func() bool {
		if len(a) == 0 {
			return forget(w.servers, slice)
		}
		return record(w.servers, slice, a)
	})
}

// SetMachines records the addresses of all endpoints of a slice.
func (w *World) SetMachines(slice string, a []netip.Addr) {
	w.update(func() bool {
		if len(a) == 0 {
			return forget(w.machines, slice)
		}
		return record(w.machines, slice, a)
	})
}

func (w *World) SetAPI(a []netip.AddrPort) { w.update(func() bool { return replace(&w.api, a) }) }

// SetLocal records the node's own addresses.
func (w *World) SetLocal(a []netip.Addr) { w.update(func() bool { return replace(&w.local, a) }) }

// record sets an entry, and reports whether it is another one than before. One that says the same stays.
func record[K comparable, V any](in map[K]V, key K, value V) bool {
	if old, has := in[key]; has && reflect.DeepEqual(old, value) {
		return false
	}
	in[key] = value
	return true
}

// forget removes an entry, and reports whether it was there.
func forget[K comparable, V any](in map[K]V, key K) bool {
	_, has := in[key]
	delete(in, key)
	return has
}

// replace sets a list, and reports whether it is another one than before.
func replace[V comparable](old *[]V, list []V) bool {
	if slices.Equal(*old, list) {
		return false
	}
	*old = list
	return true
}

// Ready reports what has not been read yet; nil when all has.
func (w *World) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range Kinds() {
		if w.missing[k] {
			return fmt.Errorf("the %s have not been read from the API server yet", k)
		}
	}
	return nil
}

// Network is the Network of a UID; nil when there is none.
func (w *World) Network(uid string) *model.Network {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.networks[uid]
}

// Await waits until a pod with faces can have its porthole: its Network is known, and its faces are of this node's. The
// error of a context that ends says what was missing and where to look.
func (w *World) Await(ctx context.Context, n attachment.NIC) error {
	woken, stop := w.waiting.Watch(struct{}{})
	defer stop()
	for {
		missing := w.Lacks(n)
		if missing == nil {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", missing, context.Cause(ctx))
		}
	}
}

// Lacks reports why a pod cannot have its porthole; nil when it can. An annotation that somebody forged is seen here: the
// faces of other nodes are none of ours, and a face leads to addresses of its own Network only.
func (w *World) Lacks(n attachment.NIC) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	network := w.networks[n.NetworkUID]
	if network == nil || network.Name != n.Network {
		return fmt.Errorf("the API server has not shown Network %s (UID %s) to the agent", n.Network, n.NetworkUID)
	}
	if network.Type != model.VPC {
		return fmt.Errorf("network %s is not of type %s, but its pod has faces", n.Network, model.VPC)
	}
	self := w.nodes[w.self]
	if self == nil || self.Assigned == nil {
		return fmt.Errorf("the controller has not given node %s its faces (annotation %s)", w.self, model.AnnotationNode)
	}
	subnets := w.infra.subnetsOf(network)
	for _, pod := range n.Doors() {
		if !contains(self.Assigned.Faces, pod.Face) {
			return fmt.Errorf("face %s is not one of node %s", pod.Face, w.self)
		}
		if !contains(subnets, pod.Own) {
			return fmt.Errorf("address %s is in no subnet of Network %s", pod.Own, n.Network)
		}
	}
	return nil
}

// ErrNoNetwork: a porthole cannot be described without its Network.
var ErrNoNetwork = errors.New("its Network is not known")

// Porthole describes a Network's porthole, but for its pods and what is the node's.
func (w *World) Porthole(networkUID string) (porthole.Spec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.networks[networkUID]
	if n == nil {
		return porthole.Spec{}, ErrNoNetwork
	}
	spec := porthole.Spec{
		UID: n.UID, Network: n.Name,
		Subnets: w.infra.subnetsOf(n),
		// Also those that the infrastructure keeps the controller from serving: a condition of the Network says so.
		ServiceRanges: w.infra.serviceRangesOf(n),
		Egress:        n.Egress, Infra: n.Infra,
		API:     w.api,
		Cluster: w.cluster(),
	}
	providers := w.peers.providers(n)
	spec.Consumer, spec.Provider = len(providers) > 0, w.peers.isProvider(n)
	for _, provider := range w.peers.ranged(n) {
		// OVN leads its Services' addresses to pods here, too, but for those that are nodes'.
		spec.Addressed = append(spec.Addressed, w.infra.serviceRangesOf(w.networks[provider])...)
	}
	for _, provider := range w.peers.addressed(n) {
		// And its pods' own.
		spec.Addressed = append(spec.Addressed, w.infra.subnetsOf(w.networks[provider])...)
	}
	if n.DNS == model.DNSNode {
		spec.DNS = w.infra.DNS
	}
	if n.OnlyIPv6() {
		w.sixOnly(&spec)
	}
	return spec, nil
}

// AsksNode reports whether the pods of a Network ask their node for names.
func (w *World) AsksNode(networkUID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.networks[networkUID]
	return n != nil && n.DNS == model.DNSNode
}

// HasDNS reports whether the agent was told where pods ask for names.
func (w *World) HasDNS() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.infra.DNS) > 0
}

// MaxConnections is how many connections a pod may have past its Network; 0 is any number.
func (w *World) MaxConnections() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.infra.MaxConnections
}

// Host describes the node's own side, but for what is the node's.
func (w *World) Host() (host porthole.Host, network string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host = porthole.Host{Cluster: w.cluster(), Flat: w.flat(), Walls: w.walls(), Compatible: w.peers.pairs()}
	for _, n := range w.networks {
		if n.Type == model.VPC && n.Infra == model.InfraDirect {
			host.Direct = append(host.Direct, n.UID)
		}
	}
	slices.Sort(host.Direct)
	self := w.nodes[w.self]
	if self == nil || self.Assigned == nil {
		return host, ""
	}
	given := self.Assigned
	host.Blocks = given.Faces
	n := w.networks[given.NetworkUID]
	if n == nil || n.Name != given.Network {
		// Without its default Network the node has no address in it.
		return host, ""
	}
	host.MAC, host.Addresses, host.Gateways = given.MAC, given.Addresses, given.Gateways
	host.Default = append(w.infra.subnetsOf(n), given.Flat...)
	return host, n.Name
}

// cluster is called with the lock held.
func (w *World) cluster() porthole.Cluster {
	c := porthole.Cluster{
		Faces: slices.Clone(w.infra.Faces),
		Infra: slices.Concat(w.infra.Services, w.infra.Others),
		// Who has no direct access is refused these as any other infrastructure.
		Closed:         w.closed(),
		MaxConnections: w.infra.MaxConnections,
	}
	for _, servers := range w.servers {
		c.Servers = append(c.Servers, servers...)
	}
	single := func(a netip.Addr) { c.Infra = append(c.Infra, netip.PrefixFrom(a, a.BitLen())) }
	for _, n := range w.nodes {
		for _, a := range n.Addresses {
			single(a)
		}
		if n.Assigned != nil {
			c.Faces = append(c.Faces, n.Assigned.Faces...)
			for _, a := range n.Assigned.Addresses {
				single(a.Addr())
			}
		}
	}
	for _, a := range slices.Concat(w.local, w.isolated()) {
		single(a)
	}
	for _, r := range w.heard() {
		for _, a := range r.Addresses {
			single(a)
		}
	}
	for _, machines := range w.machines {
		for _, a := range machines {
			single(a)
		}
	}
	for _, n := range w.networks {
		if n.Type == model.Flat {
			c.Infra = append(c.Infra, w.infra.subnetsOf(n)...)
		}
	}
	return c
}

// subnetsOf are the CIDRs that the controller has a Network's router serve.
func (i Infrastructure) subnetsOf(n *model.Network) []netip.Prefix {
	layout, _ := compile.Plan(*n, i.cluster())
	var out []netip.Prefix
	for _, r := range layout.Ranges() {
		out = append(out, r.CIDR)
	}
	return out
}

// serviceRangesOf are the ranges that a Network's Services have addresses of its own from.
func (i Infrastructure) serviceRangesOf(n *model.Network) []netip.Prefix {
	ranges, _ := compile.PlanServices(*n, i.cluster())
	return ranges
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
