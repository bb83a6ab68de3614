package decide

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/controller/decide/services"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// viewed is what namespaces see of Networks.
type viewed struct {
	*networks.Stage
	state *State
}

func (v viewed) Attachment(pod model.PodKey, network string) (a *model.Attachment, waiting bool) {
	in, _, waiting := v.state.pods.Where(pod)
	if in != network {
		return nil, false
	}
	if _, attached := v.Members(network).Attached[pod]; attached {
		a = v.state.pods.Attachment(pod)
	}
	return a, waiting
}

func (v viewed) Members(network string) networks.Members { return v.state.pods.Members(network) }

// servicesView is what Services look at.
type servicesView struct{ *State }

func (v servicesView) Network(name string) services.Network {
	out := services.Network{Name: name, Space: v.networks.Space(name)}
	if n := v.networks.Get(name); n != nil {
		out.Model, out.Serves, out.Layout, out.Guard = n.Model, v.networks.Serves(name), n.Layout, v.networks.Guard(n)
		out.Consumers, out.Uses, out.Joined = n.Consumers(), n.Uses, n.JoinedTo
		out.Ranged, out.Offered = n.DialsServices, func(of []netip.Addr) []netip.Addr { return v.networks.Offered(name, of) }
		out.Ways, out.Abroad = v.networks.Ways(name), v.networks.Abroad(n)
	}
	return out
}

func (v servicesView) MeansInfrastructure(a netip.Addr) bool {
	return v.networks.MeansInfrastructure(a)
}

func (v servicesView) Pod(key model.PodKey) (services.Pod, bool) {
	p := v.pods.Pod(key)
	if p == nil {
		return services.Pod{}, false
	}
	network, a, _ := v.pods.Where(key)
	return services.Pod{UID: p.UID, Network: network, Attachment: a}, true
}

func (v servicesView) MayBeFace(a netip.Addr) bool { return v.faces.Contains(a) }

func (v servicesView) WithFace(face netip.Addr) (model.PodKey, bool) { return v.faces.Holder(face) }

func (v servicesView) Asking(service model.ServiceKey) map[string]struct{} {
	return v.networks.Asking(service)
}

// resolvers are who answers questions for names.
type resolvers struct{ *services.Stage }

func (r resolvers) Answering(service model.ServiceKey, network string) networks.Answering {
	a := r.AnsweringOf(service, network)
	return networks.Answering{Reached: a.Reached, Answered: len(a.Answers) > 0, Home: a.Home, From: a.From}
}

// behind is what is behind routes and doors: Services, and where they lead.
type behind struct {
	*cluster.Catalog
	*services.Stage
}
