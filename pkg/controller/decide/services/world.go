package services

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// World is what Services look at.
type World struct {
	Cluster   *cluster.Cluster
	Catalog   *cluster.Catalog
	Virtual   *ledger.Virtual
	Quotas    *ledger.Quotas[model.ServiceKey]
	Balancers *drain.Balancers
	Graph     *graph.Graph
	Networks  Networks
	Pods      Pods
	// NetworkChanged tells of Networks that serve other subnets or service ranges, or admit others, PodChanged of pods that came, or
	// whose ports came or went, and FaceGiven of faces that pods with ports have now. InfrastructureChanged: the infrastructure has
	// other addresses.
	NetworkChanged        *pass.Topic[string]
	PodChanged            *pass.Topic[model.PodKey]
	FaceGiven             *pass.Topic[netip.Addr]
	InfrastructureChanged *pass.Topic[struct{}]
}

// Networks are those that Services are known in.
type Networks interface {
	// Network is what is known of one, by its name.
	Network(name string) Network
	// Asking are those whose owners want a Service to answer questions for names; for the cluster's own DNS also those who want
	// nobody to. Nobody changes them.
	Asking(service model.ServiceKey) map[string]struct{}
	// MeansInfrastructure reports whether an address is one of the infrastructure's or of the cluster's own Services.
	MeansInfrastructure(netip.Addr) bool
}

// Network is a Network as Services see it.
type Network struct {
	Name string
	// Model is nil when there is none of its name. Serves: its rows are wanted.
	Model  *model.Network
	Serves bool
	Layout compile.Layout
	// Consumers are the Networks whose pods reach this one's, and Uses whether its own reach another's. Not for a Network that has nothing
	// to do with others.
	Consumers []string
	Uses      func(provider string) bool
	// Ranged reports whether its pods dial another's Services by addresses of that one's own ranges. Nil: they do not. Offered are
	// those of some addresses of its own ranges that others may dial.
	Ranged  func(provider string) bool
	Offered func(of []netip.Addr) []netip.Addr
	// Joined reports whether another's router is joined to its own, so that pods know each other by their own addresses. Nil: none is.
	Joined func(other string) bool
	// Abroad are the ranges in which its pods dial those of other Networks by their own addresses.
	Abroad []netip.Prefix
	// Ways are how its consumers know it.
	Ways []compile.Layout
	// Space is the Network whose load balancers its pods meet: flat Networks share the default one's.
	Space string
	// Guard is what guards the pods of others in the default Network; nil elsewhere, and while nobody needs it.
	Guard *compile.Layout
}

// offers reports whether pods of other Networks reach this one's.
func (n Network) offers() bool { return len(n.Consumers) > 0 }

// asks reports whether its pods' questions for names are led by rows of its own: to a Service, or to nobody.
func (n Network) asks() bool {
	return n.Model != nil && n.Serves && n.Layout.Faces && (n.Model.DNS == model.DNSService || n.Model.DNS == model.DNSNone)
}

// uses reports whether its pods reach another's.
func (n Network) uses(provider string) bool { return n.Uses != nil && n.Uses(provider) }

// joined reports whether another's router is joined to its own.
func (n Network) joined(other string) bool { return n.Joined != nil && n.Joined(other) }

// Pods are the pods behind Services.
type Pods interface {
	// Pod is what is known of one; false when there is none of its name.
	Pod(model.PodKey) (Pod, bool)
	// WithFace is the pod that has a face; false when nobody has it. MayBeFace reports whether an address is of the ranges of faces.
	WithFace(netip.Addr) (model.PodKey, bool)
	MayBeFace(netip.Addr) bool
}

// Pod is a pod and where it is.
type Pod struct {
	UID, Network string
	// Attachment is nil while it has no port.
	Attachment *model.Attachment
}

// Sink takes what Services are told. A kube.Writer is one.
type Sink interface {
	// WriteServiceAddresses shows on a Service what it has; nil takes the annotation away.
	WriteServiceAddresses(service model.ServiceKey, uid string, a *model.ServiceAddresses)
	// WriteMirrors replaces the mirrors of each of the Services. After the first call, mirrors that no call named are
	// wanted no more.
	WriteMirrors(mirrors map[model.ServiceKey][]model.Mirror)
	Event(about model.ObjectRef, p model.Problem)
}

// admits reports whether a namespace's pods may attach to the Network.
func (s *Stage) admits(n Network, ns model.Namespace) bool {
	return n.Model != nil && s.looker(n).Admits(ns)
}

// looker is a Network that exists as one that looks for Services.
func (s *Stage) looker(n Network) visible.Looker {
	return visible.Looker{Network: n.Model, Standard: s.isDefault(n)}
}

func (s *Stage) isDefault(n Network) bool { return n.Name == s.world.Cluster.Network }

// look is what one Service looks at. All of it is recorded, so that the Service is looked at again when it changes.
type look struct {
	*Stage
	service model.ServiceKey
	// networks are those that it has looked at: many endpoints are in few.
	networks map[string]Network
}

func (s *Stage) look(service model.ServiceKey) look {
	return look{s, service, map[string]Network{}}
}

func (l look) namespace(name string) *model.Namespace {
	l.reads.namespaces.Note(l.service, name)
	return l.world.Cluster.Namespaces[name]
}

func (l look) network(name string) Network {
	if n, seen := l.networks[name]; seen {
		return n
	}
	l.reads.networks.Note(l.service, name)
	l.networks[name] = l.world.Networks.Network(name)
	return l.networks[name]
}

func (l look) pod(key model.PodKey) (Pod, bool) {
	l.reads.pods.Note(l.service, key)
	return l.world.Pods.Pod(key)
}

func (l look) withFace(a netip.Addr) (model.PodKey, bool) {
	if !l.world.Pods.MayBeFace(a) {
		return model.PodKey{}, false
	}
	l.reads.faces.Note(l.service, a)
	return l.world.Pods.WithFace(a)
}

func (l look) isNode(a netip.Addr) bool {
	l.reads.hosts.Note(l.service, a)
	return l.world.Cluster.IsNode(a)
}

func (l look) meansInfrastructure(a netip.Addr) bool {
	l.reads.infrastructure.Note(l.service, struct{}{})
	return l.world.Networks.MeansInfrastructure(a)
}

// nameServers are the addresses at which a Network's pods ask for names.
func (l look) nameServers(n Network) []netip.Addr {
	l.reads.services.Note(l.service, l.world.Cluster.DNS)
	return l.NameServers(n.Model)
}

// reads record who has looked at what.
type reads struct {
	namespaces, networks *pass.Reads[model.ServiceKey, string]
	pods                 *pass.Reads[model.ServiceKey, model.PodKey]
	faces, hosts         *pass.Reads[model.ServiceKey, netip.Addr]
	services             *pass.Reads[model.ServiceKey, model.ServiceKey]
	infrastructure       *pass.Reads[model.ServiceKey, struct{}]
}

func newReads(queue *pass.Queue[model.ServiceKey], w World) reads {
	return reads{
		namespaces: pass.NewReads(queue, w.Cluster.NamespaceChanged), networks: pass.NewReads(queue, w.NetworkChanged),
		pods:  pass.NewReads(queue, w.PodChanged),
		faces: pass.NewReads(queue, w.FaceGiven), hosts: pass.NewReads(queue, w.Cluster.HostChanged),
		services: pass.NewReads(queue, w.Catalog.ServiceChanged), infrastructure: pass.NewReads(queue, w.InfrastructureChanged),
	}
}

func (r reads) forget(key model.ServiceKey) {
	r.namespaces.Forget(key)
	r.networks.Forget(key)
	r.pods.Forget(key)
	r.faces.Forget(key)
	r.hosts.Forget(key)
	r.services.Forget(key)
	r.infrastructure.Forget(key)
}
