package decide_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func (h *history) drawService(t *rapid.T, ns string) model.Service {
	name := rapid.SampledFrom(someServices).Draw(t, "service")
	s := service(ns, name, fmt.Sprintf("10.96.0.%d", 9+slices.Index(someSpaces, ns)*len(someServices)+slices.Index(someServices, name)))
	s.UID = fmt.Sprintf("%s-%d", s.UID, h.serial)
	s.Created = time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0)
	if rapid.Bool().Draw(t, "by UDP, too") {
		s.Ports = append(s.Ports, model.ServicePort{Protocol: model.UDP, Port: rapid.SampledFrom([]uint16{80, 53}).Draw(t, "UDP port")})
	}
	if rapid.Bool().Draw(t, "wants") {
		s.Wanted = []netip.Addr{at(fmt.Sprintf("10.9.0.%d", rapid.IntRange(0, 7).Draw(t, "wanted")))}
	}
	if rapid.Bool().Draw(t, "published") {
		s.Published = []netip.Addr{at(rapid.SampledFrom(somePublished).Draw(t, "at"))}
	}
	s.Local = rapid.IntRange(0, 4).Draw(t, "local") == 0
	s.Prefers = rapid.SampledFrom([]model.Preference{model.PrefersNone, model.PrefersNone, model.PrefersZone, model.PrefersNode}).Draw(t,
		"prefers")
	return s
}

// makeService makes a Service. Whoever changes one leaves the controller's annotation as it is.
func (w *world) makeService(s model.Service) {
	if old := w.services[s.Key]; old != nil {
		s.UID, s.Created, s.Assigned = old.UID, old.Created, old.Assigned
	}
	w.setService(s)
}

func drawSlice(t *rapid.T, ns, name string) model.Slice {
	s := slice(ns, "web-"+name, "web")
	s.Ports = append(s.Ports, model.SlicePort{Protocol: model.UDP, Port: 8080})
	for i := range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "", "on-its-node"}).Draw(t, "behind")
		address := fmt.Sprintf("100.64.0.%d", rapid.IntRange(1, 6).Draw(t, "face"))
		if name == "on-its-node" {
			address = fmt.Sprintf("192.168.0.%d", 1+i%2)
		}
		e := endpoint(ns, name, address)
		if e.Ready = rapid.Bool().Draw(t, "ready"); !e.Ready {
			e.Serving = rapid.Bool().Draw(t, "serving")
		}
		e.Node = rapid.SampledFrom(someNodes).Draw(t, "on")
		if rapid.IntRange(0, 3).Draw(t, "hints") > 0 {
			e.ForZones = []string{rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "for zone")}
			e.ForNodes = []string{rapid.SampledFrom(someNodes).Draw(t, "for node")}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func (h *history) drawGateway(t *rapid.T, ns, name string) []step {
	g := tcpGateway(ns, name, "web", "more")
	g.UID = fmt.Sprintf("%s-%d", g.UID, h.serial)
	g.Generation, g.Created = 1, time.Unix(rapid.Int64Range(0, 3).Draw(t, "age"), 0)
	for range rapid.IntRange(0, 2).Draw(t, "addresses") {
		g.Addresses = append(g.Addresses, model.GatewayAddress{Addr: at(fmt.Sprintf("198.18.0.%d", rapid.IntRange(0, 5).Draw(t, "virtual")))})
	}
	gone := rapid.IntRange(0, 2).Draw(t, "gone") == 0
	return []step{{"Gateway " + ns + " " + name, func(w *world) {
		old := w.gateways[g.Key]
		if gone {
			if old != nil {
				w.deleteGateway(g.Key)
			}
			return
		}
		made := g
		if old != nil {
			made.UID, made.Created, made.Held, made.Generation = old.UID, old.Created, old.Held, old.Generation
			if !reflect.DeepEqual(made, *old) {
				made.Generation++
			}
		}
		w.setGateway(made)
	}}}
}
