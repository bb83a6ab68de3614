package dns

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/visible"
)

// records are what one Network knows of one Service. They are not changed once made.
type records struct {
	service *Service
	// virtual are the addresses that its name stands for, unless it is headless: its ClusterIPs, or the Network's own.
	virtual []netip.Addr
	// own are the Service's virtual addresses, without a host.
	own []endpoint
	// endpoints that may be told of, by address and host.
	endpoints []endpoint
	// hosts are the places in endpoints by host.
	hosts map[string][]int
	// protocols are those of ports with a name, of the Service or, if it is headless, of its endpoints.
	protocols map[string]struct{}
}

// endpoint is an address with its name and the ports that it serves.
type endpoint struct {
	// host is empty for the Service itself.
	host  string
	addr  netip.Addr
	ports []Port
}

// maxEndpoints bounds the endpoints of a Service that one Network is told of: each of their changes has all of them sorted, while names of
// all other Networks of the node wait.
const maxEndpoints = 10000

// newRecords puts a Service, its virtual addresses and the endpoints that one Network reaches together. These may come in any
// order.
func newRecords(service *Service, virtual []netip.Addr, from []reached) *records {
	r := &records{service: service}
	if service.ExternalName != "" {
		return r
	}
	from = first(from, maxEndpoints)
	r.virtual = virtual
	r.protocols = protocolsOf(service, from)
	for _, a := range virtual {
		r.own = append(r.own, endpoint{addr: a, ports: service.Ports})
	}
	for _, s := range from {
		for _, e := range s.Endpoints {
			if addr := s.addressOf(e); addr.IsValid() && (e.Ready || service.PublishNotReady) {
				r.endpoints = append(r.endpoints, endpoint{host: visible.Host(e.Hostname, addr), addr: addr, ports: s.Ports})
			}
		}
	}
	if len(r.endpoints) == 0 {
		return r
	}
	slices.SortFunc(r.endpoints, func(a, b endpoint) int {
		return cmp.Or(a.addr.Compare(b.addr), strings.Compare(a.host, b.host), slices.CompareFunc(a.ports, b.ports, comparePorts))
	})
	r.hosts = make(map[string][]int, len(r.endpoints))
	for i, e := range r.endpoints {
		r.hosts[e.host] = append(r.hosts[e.host], i)
	}
	return r
}

// first are as many endpoints as may be told of: those of the first slices by name, so that a change of one slice takes few others with it.
func first(from []reached, most int) []reached {
	all := 0
	for _, s := range from {
		all += len(s.Endpoints)
	}
	if all <= most {
		return from
	}
	from = slices.SortedFunc(slices.Values(from), func(a, b reached) int {
		return cmp.Or(strings.Compare(a.key.Namespace, b.key.Namespace), strings.Compare(a.key.Name, b.key.Name))
	})
	for i, s := range from {
		if most -= len(s.Endpoints); most < 0 {
			cut := *s.Slice
			cut.Endpoints = cut.Endpoints[:len(cut.Endpoints)+most]
			from[i].Slice = &cut
			return from[:i+1]
		}
	}
	return from
}

// named yields the addresses of endpoints, each once, with their hosts: sorted, at most maxPointers.
func (r *records) named() iter.Seq2[netip.Addr, []string] {
	return func(yield func(netip.Addr, []string) bool) {
		for left := r.endpoints; len(left) > 0; {
			addr, names := left[0].addr, []string(nil)
			for ; len(left) > 0 && left[0].addr == addr; left = left[1:] {
				if host := left[0].host; len(names) < maxPointers && (len(names) == 0 || names[len(names)-1] != host) {
					names = append(names, host)
				}
			}
			if !yield(addr, names) {
				return
			}
		}
	}
}

func comparePorts(a, b Port) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
}

// wanted is the part of a name in front of the Service's. Empty strings stand for whatever there is.
type wanted struct{ host, port, protocol string }

// admits reports whether one of the ports is wanted; endpoints of a headless Service need not have any.
func (w wanted) admits(ports []Port) bool {
	if w.port == "" && w.protocol == "" {
		return true
	}
	return slices.ContainsFunc(ports, w.matches)
}

// among are the endpoints that serve what is wanted. All endpoints of a slice share its ports, which are looked at once.
func (w wanted) among(all []endpoint) (out []endpoint) {
	known := map[*Port]bool{}
	for _, e := range all {
		if len(e.ports) == 0 {
			continue
		}
		admits, looked := known[&e.ports[0]]
		if !looked {
			admits = w.admits(e.ports)
			known[&e.ports[0]] = admits
		}
		if admits {
			out = append(out, e)
		}
	}
	return out
}

func (w wanted) matches(p Port) bool {
	return (w.port == "" || w.port == p.Name) && (w.protocol == "" || w.protocol == p.Protocol)
}

// find is all that the wanted name stands for, in a fixed order; whether there is any decides whether the name exists.
// The caller does not change it.
func (r *records) find(w wanted) []endpoint {
	switch {
	case w.host != "":
		places := r.hosts[w.host]
		out := make([]endpoint, len(places))
		for i, at := range places {
			out[i] = r.endpoints[at]
		}
		return out
	case r.service.Headless && w == wanted{}:
		return r.endpoints
	case r.service.Headless:
		return w.among(r.endpoints)
	case w.admits(r.service.Ports):
		return r.own
	}
	return nil
}

// protocolsOf are the protocols of a Service's named ports, so that a name _port._protocol lies below.
func protocolsOf(service *Service, from []reached) map[string]struct{} {
	out := map[string]struct{}{}
	note := func(ports []Port) {
		for _, p := range ports {
			if p.Name != "" {
				out[p.Protocol] = struct{}{}
			}
		}
	}
	if !service.Headless {
		note(service.Ports)
		return out
	}
	for _, s := range from {
		told := func(e Endpoint) bool { return (e.Ready || service.PublishNotReady) && s.addressOf(e).IsValid() }
		if slices.ContainsFunc(s.Endpoints, told) {
			note(s.Ports)
		}
	}
	return out
}

// hasProtocol reports whether a named port of the protocol exists.
func (r *records) hasProtocol(protocol string) bool {
	_, has := r.protocols[protocol]
	return has
}
