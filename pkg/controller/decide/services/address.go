package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// told is what the owner of a Service, that of a UID, was told.
type told struct {
	uid     string
	problem model.Problem
}

// Claim asks the ledger for addresses of the ranges of their namespaces' Networks, for the Services that something has changed about.
func (s *Stage) Claim() {
	for key := range s.queue.Marked() {
		// Whom it puts beyond the quota, or brings back, is marked, too.
		s.count(key)
	}
	for _, key := range s.loads.Settle() {
		s.queue.Mark(key)
	}
	keys := s.queue.Take()
	s.rows.MarkAll(keys)
	for key := range keys {
		service := s.world.Catalog.Service(key)
		if n, claims := s.claimsIn(service); claims {
			s.world.Virtual.Claim(ownerOf(key), claimOf(service, n))
		} else {
			s.world.Virtual.Withdraw(ownerOf(key))
		}
	}
}

// count enters a Service among those of its tenant.
func (s *Stage) count(key model.ServiceKey) {
	if service := s.world.Catalog.Service(key); service != nil {
		s.world.Quotas.Enter(key, key.Namespace, service.Created)
		s.loads.Enter(key, s.world.Cluster.Share(key.Namespace), service.Created, s.weight(service))
	} else {
		s.world.Quotas.Leave(key)
		s.loads.Leave(key)
	}
}

// claimsIn is the Network whose ranges a Service gets addresses from: that of its namespace, if it serves any and the
// namespace may use it.
func (s *Stage) claimsIn(service *model.Service) (Network, bool) {
	if !s.served(service) {
		return Network{}, false
	}
	ns := s.world.Cluster.Namespaces[service.Key.Namespace]
	if ns == nil {
		return Network{}, false
	}
	n := s.world.Networks.Network(s.world.Cluster.HomeOf(*ns))
	return n, len(s.world.Virtual.Served(n.Name)) > 0 && s.admits(n, *ns)
}

// sayAddresses shows a Service what it has, and tells its owner what it does not get.
func (s *Stage) sayAddresses(key model.ServiceKey) {
	service := s.world.Catalog.Service(key)
	claim, grant, claims := s.world.Virtual.GrantTo(ownerOf(key))
	if claims {
		s.tell(key, service, cmp.Or(unreadable(service), s.missing(claim.Network, grant)))
	} else {
		s.tell(key, service, cmp.Or(s.beyond(key), unaddressable(service)))
	}
	s.showAddresses(key)
}

// claimOf is what a Service asks of its Network: an address of each IP family that it has a ClusterIP of.
func claimOf(service *model.Service, n Network) ledger.Claim {
	wish := func(v4 bool) ledger.Wish {
		sameFamily := func(a netip.Addr) bool { return a.Is4() == v4 }
		if !slices.ContainsFunc(service.ClusterIPs, sameFamily) {
			return ledger.Wish{}
		}
		if i := slices.IndexFunc(service.Wanted, sameFamily); i >= 0 {
			return ledger.Wish{Asked: service.Wanted[i : i+1], Otherwise: ledger.Kept}
		}
		return ledger.Wish{Otherwise: ledger.Any}
	}
	claim := ledger.Claim{
		UID: service.UID, Network: n.Name, NetworkUID: n.Model.UID, Created: service.Created,
		Known: service.Assigned != nil && !service.Assigned.Refused, IPv4: wish(true), IPv6: wish(false),
	}
	if a := service.Assigned; a != nil && a.Network == n.Name && a.NetworkUID == n.Model.UID {
		claim.Former = a.Addresses
	}
	return claim
}

// missing says what a Service does not get, the first if there is more; nil when it gets all.
func (s *Stage) missing(network string, grant ledger.Grant) *model.Problem {
	if len(grant.Refusals) == 0 {
		return nil
	}
	refuse := func(reason, format string, args ...any) *model.Problem {
		return new(model.Problemf(reason, format, args...))
	}
	switch r := grant.Refusals[0]; {
	case r.Full.IsValid():
		return refuse(model.ReasonServiceCIDRFull, "no address is free in service range %s of Network %q: delete Services there", r.Full, network)
	case r.Outcome == alloc.Outside:
		return refuse(model.ReasonAddressOutsideRange, "address %s is in no service range of Network %q (%s)", r.Asked, network,
			ledger.List(s.world.Virtual.Served(network)))
	case r.Outcome == alloc.Reserved:
		return refuse(model.ReasonAddressReserved, "address %s names a service range of Network %q itself, or is its last: ask for another",
			r.Asked, network)
	default:
		return refuse(model.ReasonAddressInUse, "address %s of Network %q is in use by %s", r.Asked, network, ledger.Describe(r.Holder))
	}
}

// unaddressable says why a Service gets none of the addresses that it asks for; nil when it asks for none.
func unaddressable(service *model.Service) *model.Problem {
	if service == nil || len(service.Wanted) == 0 && service.WantedError == "" {
		return nil
	}
	return cmp.Or(unreadable(service), new(model.Problemf(model.ReasonAddressOutsideRange,
		"annotation %s asks for %s, but the Network of the namespace serves no service range", model.AnnotationServiceIPs,
		ledger.List(service.Wanted))))
}

// unreadable says why a Service's wish for addresses cannot be followed, whatever there is; nil when it can.
func unreadable(service *model.Service) *model.Problem {
	why := service.WantedError
	for _, wanted := range service.Wanted {
		if !slices.ContainsFunc(service.ClusterIPs, func(a netip.Addr) bool { return a.Is4() == wanted.Is4() }) {
			why = fmt.Sprintf("the Service has no ClusterIP of the IP family of %s", wanted)
		}
	}
	if why == "" {
		return nil
	}
	return new(model.Problemf(model.ReasonServiceIPsInvalid, "annotation %s: %s", model.AnnotationServiceIPs, why))
}

// tell tells a Service's owner once what is wrong with its addresses; nil when nothing is.
func (s *Stage) tell(key model.ServiceKey, service *model.Service, p *model.Problem) {
	if service == nil || p == nil {
		delete(s.told, key)
		return
	}
	now := told{uid: service.UID, problem: *p}
	if s.told[key] != now {
		s.sink.Event(service.Ref(), *p)
	}
	s.told[key] = now
}

// showAddresses writes on a Service what it has, if that is not there; and tells its owner of addresses that it has lost
// because no range holds them any more.
func (s *Stage) showAddresses(key model.ServiceKey) {
	service := s.world.Catalog.Service(key)
	if service == nil {
		return
	}
	var have *model.ServiceAddresses
	if claim, grant, _ := s.world.Virtual.GrantTo(ownerOf(key)); len(grant.Addresses) > 0 {
		have = &model.ServiceAddresses{ServiceUID: claim.UID, Network: claim.Network, NetworkUID: claim.NetworkUID, Addresses: grant.Addresses}
	} else if s.beyond(key) != nil {
		have = &model.ServiceAddresses{ServiceUID: service.UID, Refused: true}
	}
	if reflect.DeepEqual(service.Assigned, have) {
		return
	}
	s.sink.WriteServiceAddresses(key, service.UID, have)
	if had := service.Assigned; had != nil {
		if lost := s.lostVIPs(had); len(lost) > 0 {
			now := "it has none there now"
			if have != nil && have.NetworkUID == had.NetworkUID {
				now = "it has " + ledger.List(have.Addresses) + " there now"
			}
			s.sink.Event(service.Ref(), model.Problemf(model.ReasonAddressChanged,
				"%s of Network %q is in no service range that is served any more: %s", ledger.List(lost), had.Network, now))
		}
	}
}

// lostVIPs are those of addresses that a Service had which no range of their Network holds now.
func (s *Stage) lostVIPs(had *model.ServiceAddresses) []netip.Addr {
	n := s.world.Networks.Network(had.Network)
	if n.Model == nil || n.Model.UID != had.NetworkUID {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(had.Addresses), func(a netip.Addr) bool {
		return slices.ContainsFunc(s.world.Virtual.Served(n.Name), func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// addressesIn are the virtual addresses of its own that a Service has in a Network.
func (l look) addressesIn(n Network) []netip.Addr {
	if claim, grant, _ := l.world.Virtual.GrantTo(ownerOf(l.service)); claim.Network == n.Name && claim.NetworkUID == n.Model.UID {
		return grant.Addresses
	}
	return nil
}

// publishedIn are the addresses of a Service's load balancer that lead to the Service inside a Network, too, where pods dial
// them because its public name does: without leaving the Network, whatever its egress. Not those that mean something else
// there: an address of the Network's own or of another's pods, of the default Network, or of the cluster's Services.
//
// In the default Network kube-proxy does it, on the pod's node.
func (l look) publishedIn(service model.Service, n Network) []netip.Addr {
	if !n.Layout.Faces {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(service.Published), func(a netip.Addr) bool { return l.meansElse(n, a) })
}

func (l look) meansElse(n Network, a netip.Addr) bool {
	holds := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.Layout.Subnets, func(subnet compile.SubnetLayout) bool {
		return slices.ContainsFunc(subnet.Ranges, func(r compile.Range) bool { return r.CIDR.Contains(a) })
	}) || slices.ContainsFunc(n.Abroad, holds) || slices.ContainsFunc(l.world.Virtual.Served(n.Name), holds) ||
		slices.ContainsFunc(l.world.Cluster.Gateways, holds) ||
		l.meansInfrastructure(a)
}
