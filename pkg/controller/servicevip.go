package controller

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// addressed is what a Service has of the service ranges of its namespace's Network.
type addressed struct {
	// uid is the Service's; network and networkUID say where its addresses are.
	uid, network, networkUID string
	addresses                []netip.Addr
}

// told is what the owner of a Service, that of a UID, was told.
type told struct {
	uid     string
	problem model.Problem
}

// addressServices gives the Services that changed, or whose Network did, their addresses of its ranges. Addresses that
// are written on Services are held before any Service claims one, the older Service before the younger; and as long as one
// comes free, those that wait for it are looked at.
func (s *State) addressServices() {
	var here []*model.Service
	for key := range s.services.dirty {
		service := s.services.byKey[key]
		if service != nil && s.rangesFor(service) != nil {
			here = append(here, service)
		} else {
			s.tellService(key, service, unaddressable(service))
		}
		s.unaddress(key)
	}
	s.sortServices(here)
	for _, service := range here {
		n := s.rangesFor(service)
		if a := service.Assigned; a != nil && a.Network == n.name && a.NetworkUID == n.model.UID {
			s.holdVIPs(n, serviceOwner(service.Key), a.Addresses)
		}
	}
	for {
		for _, service := range here {
			s.addressOne(service)
		}
		if here = s.waitingServices(s.freedVIPs()); len(here) == 0 {
			break
		}
		s.sortServices(here)
	}
	for key := range s.services.dirty {
		s.showAddresses(key)
	}
}

// waitingServices are those of the owners that are Services; they are compiled, too.
func (s *State) waitingServices(owners map[nb.Owner]struct{}) []*model.Service {
	var out []*model.Service
	for owner := range owners {
		key, ok := serviceOf(owner)
		if service := s.services.byKey[key]; ok && service != nil && s.rangesFor(service) != nil {
			s.services.dirty[key] = struct{}{}
			out = append(out, service)
		}
	}
	return out
}

// sortServices orders Services: those that have addresses first, older before younger.
func (s *State) sortServices(list []*model.Service) {
	standing := func(service *model.Service) int {
		if a := s.services.addressed[service.Key]; a != nil && len(a.addresses) > 0 {
			return 0
		}
		return b2i(service.Assigned == nil) + 1
	}
	slices.SortFunc(list, func(a, b *model.Service) int {
		return cmp.Or(
			cmp.Compare(standing(a), standing(b)),
			a.Created.Compare(b.Created),
			cmp.Compare(a.Key.Namespace, b.Key.Namespace),
			cmp.Compare(a.Key.Name, b.Key.Name),
		)
	})
}

// rangesFor is the Network whose ranges a Service gets addresses from: that of its namespace, if it serves any and the
// namespace may use it.
func (s *State) rangesFor(service *model.Service) *network {
	ns := s.namespaces[service.Key.Namespace]
	if ns == nil {
		return nil
	}
	n := s.networks[s.homeOf(*ns)]
	if !n.hasVIPs() || n.model == nil || !n.admits(*ns) {
		return nil
	}
	return n
}

// unaddress takes a Service's addresses back, if it is not there any more, is another one, or belongs elsewhere now.
func (s *State) unaddress(key model.ServiceKey) {
	a, service := s.services.addressed[key], s.services.byKey[key]
	if a == nil {
		return
	}
	if service != nil && service.UID == a.uid {
		if n := s.rangesFor(service); n != nil && n.name == a.network && n.model.UID == a.networkUID {
			return
		}
	}
	if n := s.networks[a.network]; n != nil && n.vips.uid == a.networkUID {
		s.releaseVIPs(n, serviceOwner(key))
	}
	delete(s.services.addressed, key)
}

// addressOne gives a Service what it claims, and tells its owner what is missing.
func (s *State) addressOne(service *model.Service) {
	n, key := s.rangesFor(service), service.Key
	a := s.services.addressed[key]
	if a == nil {
		a = &addressed{uid: service.UID, network: n.name, networkUID: n.model.UID}
		s.services.addressed[key] = a
	}
	addresses, missing := s.claimVIPs(n, serviceOwner(key), vipClaim{families: service.ClusterIPs, wanted: service.Wanted})
	a.addresses = addresses
	s.tellService(key, service, cmp.Or(unreadable(service), missing))
}

// unaddressable says why a Service gets none of the addresses that it asks for; nil when it asks for none.
func unaddressable(service *model.Service) *model.Problem {
	if service == nil || len(service.Wanted) == 0 && service.WantedError == "" {
		return nil
	}
	return cmp.Or(unreadable(service), &model.Problem{
		Reason:  model.ReasonAddressOutsideRange,
		Message: fmt.Sprintf("annotation %s asks for %s, but the Network of the namespace serves no service range", model.AnnotationServiceIPs, texts(service.Wanted)),
	})
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
	return &model.Problem{
		Reason: model.ReasonServiceIPsInvalid, Message: fmt.Sprintf("annotation %s: %s", model.AnnotationServiceIPs, why),
	}
}

// tellService tells a Service's owner once what is wrong with its addresses; nil when nothing is.
func (s *State) tellService(key model.ServiceKey, service *model.Service, p *model.Problem) {
	if service == nil || p == nil {
		delete(s.services.told, key)
		return
	}
	now := told{uid: service.UID, problem: *p}
	if s.services.told[key] != now {
		s.sink.ServiceEvent(key, service.UID, *p)
	}
	s.services.told[key] = now
}

// showAddresses writes on a Service what it has, if that is not there; and tells its owner of addresses that it has lost
// because no range holds them any more.
func (s *State) showAddresses(key model.ServiceKey) {
	service := s.services.byKey[key]
	if service == nil {
		return
	}
	var have *model.ServiceAddresses
	if a := s.services.addressed[key]; a != nil && len(a.addresses) > 0 {
		have = &model.ServiceAddresses{ServiceUID: a.uid, Network: a.network, NetworkUID: a.networkUID, Addresses: a.addresses}
	}
	if reflect.DeepEqual(service.Assigned, have) {
		return
	}
	s.sink.WriteServiceAddresses(key, service.UID, have)
	if had := service.Assigned; had != nil {
		if lost := s.lostVIPs(had); len(lost) > 0 {
			now := "it has none there now"
			if have != nil && have.NetworkUID == had.NetworkUID {
				now = "it has " + texts(have.Addresses) + " there now"
			}
			s.sink.ServiceEvent(key, service.UID, model.Problem{
				Reason:  model.ReasonAddressChanged,
				Message: fmt.Sprintf("%s of Network %q is in no service range that is served any more: %s", texts(lost), had.Network, now),
			})
		}
	}
}

// lostVIPs are those of addresses that a Service had which no range of their Network holds now.
func (s *State) lostVIPs(had *model.ServiceAddresses) []netip.Addr {
	n := s.networks[had.Network]
	if n == nil || n.model == nil || n.model.UID != had.NetworkUID {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(had.Addresses), func(a netip.Addr) bool {
		return slices.ContainsFunc(n.vips.served, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// vipsOf are the virtual addresses of its own that a Service has in a Network.
func (s *State) vipsOf(key model.ServiceKey, n *network) []netip.Addr {
	if a := s.services.addressed[key]; a != nil && a.network == n.name && a.networkUID == n.model.UID {
		return a.addresses
	}
	return nil
}

func serviceOwner(key model.ServiceKey) nb.Owner { return nb.ServiceOwner(key.Namespace, key.Name) }

func texts[T fmt.Stringer](list []T) string {
	var words []string
	for _, x := range list {
		words = append(words, x.String())
	}
	return strings.Join(words, ", ")
}
