package dns

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
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
}

// endpoint is an address with its name and the ports that it serves.
type endpoint struct {
	// host is empty for the Service itself.
	host  string
	addr  netip.Addr
	ports []Port
}

// newRecords puts a Service, its virtual addresses and the endpoints that one Network reaches together. These may come in any
// order.
func newRecords(service *Service, virtual []netip.Addr, from []reached) *records {
	r := &records{service: service}
	if service.ExternalName != "" {
		return r
	}
	r.virtual = virtual
	for _, a := range virtual {
		r.own = append(r.own, endpoint{addr: a, ports: service.Ports})
	}
	for _, s := range from {
		for _, e := range s.Endpoints {
			addr := e.Address
			if s.faces {
				addr = e.Face
			}
			if addr.IsValid() && (e.Ready || service.PublishNotReady) {
				r.endpoints = append(r.endpoints, endpoint{host: hostOf(e.Hostname, addr), addr: addr, ports: s.Ports})
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

func comparePorts(a, b Port) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
}

// hostOf is the first label of an endpoint's name: its hostname, else its address with dashes, as CoreDNS has it.
func hostOf(hostname string, addr netip.Addr) string {
	if hostname != "" {
		return strings.ToLower(hostname)
	}
	return dashed(addr)
}

// dashed writes an address as a label. A label may not end with a dash.
func dashed(a netip.Addr) string {
	s := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	if strings.HasPrefix(s, "-") {
		s = "0" + s
	}
	return s
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
		return slices.DeleteFunc(slices.Clone(r.endpoints), func(e endpoint) bool { return !w.admits(e.ports) })
	case w.admits(r.service.Ports):
		return r.own
	}
	return nil
}

// hasProtocol reports whether a named port of the protocol exists, so that a name _port._protocol lies below.
func (r *records) hasProtocol(protocol string) bool {
	named := func(p Port) bool { return p.Name != "" && p.Protocol == protocol }
	if !r.service.Headless {
		return slices.ContainsFunc(r.service.Ports, named)
	}
	return slices.ContainsFunc(r.endpoints, func(e endpoint) bool { return slices.ContainsFunc(e.ports, named) })
}
