package policies

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/controller/decide/services"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// World is what policies read of others' results, and whom they tell of problems.
type World struct {
	Networks Networks
	Pods     Pods
	Nodes    Nodes
	Services Services
	Sink     Sink
	// API is the Service of the Kubernetes API.
	API model.ServiceKey
	// PortChanged tells of pods that get a port, have another one, or lose it.
	PortChanged *pass.Topic[model.PodKey]
	// ServedChanged tells of Networks that serve something else or have other peers, AnswersChanged of those whose questions for
	// names are answered by somebody else.
	ServedChanged, AnswersChanged *pass.Topic[string]
	// SeenChanged tells that nodes have other addresses in the default Network.
	SeenChanged *pass.Topic[string]
}

// Networks are those in which policies judge.
type Networks interface {
	// Served is a Network whose rows are wanted, and what it serves; nil when there is none.
	Served(name string) (*model.Network, compile.Layout)
	// Holders are the pods that have addresses of a Network. The caller does not change them.
	Holders(name string) map[model.PodKey]struct{}
	// Peers are the Networks whose pods are peers of a Network's policies in a direction, sorted: those whose pods reach its own, or are
	// reached by them. Each is the other's peer, in the other direction. The caller does not change them.
	Peers(name string, d model.Direction) []string
	// Joined are the Networks whose routers are joined to a Network's, sorted.
	Joined(name string) []string
}

// Pods are those that policies select, and those behind doors.
type Pods interface {
	// Pod is a pod, with a port or without; nil when there is none.
	Pod(key model.PodKey) *model.Pod
	// Attachment is what a pod with a port has; nil while it has no port. Its namespace is known.
	Attachment(key model.PodKey) *model.Attachment
}

// Nodes send to pods.
type Nodes interface {
	// Seen are a node's addresses in the default Network. The caller does not change them.
	Seen(name string) []netip.Addr
}

// Services are those behind doors.
type Services interface {
	Service(key model.ServiceKey) *model.Service
	// Slices are those of a Service, in the order of their names.
	Slices(key model.ServiceKey) []*model.Slice
	// Answers are the endpoints by which a Service of a tenant answers a Network's questions for names.
	Answers(key model.ServiceKey, network string) []services.Answer
}

// Sink takes what the owners of policies are told.
type Sink interface {
	Event(about model.ObjectRef, p model.Problem)
}
