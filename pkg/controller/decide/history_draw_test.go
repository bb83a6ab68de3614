package decide_test

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// step is what somebody does to one object, whatever else has happened: done twice it is done once.
type step struct {
	// on is the object; steps on different ones may be seen in any order.
	on string
	do func(*world)
}

// batch is what the controller sees at once. moment is when.
type batch struct {
	steps  []step
	moment time.Time
}

// history is what happens to a cluster, under the controller's settings.
type history struct {
	settings settings
	batches  []batch
	// serial tells apart what has one name.
	serial int
}

// settings are those of a cluster in which everything is soon used up, or nothing.
type settings struct {
	// flat is the Network beside the default one whose pods have no faces; empty for none. A Network's type does not change.
	flat string
	// small: nodes have few faces, and then Networks have many addresses, of which nobody asks for a certain one: who lacks both is
	// told of the one that was used up first.
	small bool
	// joined is how many Networks mode Routed joins at most.
	joined int
	// changes is how many times at once a tenant changes its Networks; 0: as many as never to wait in a history.
	changes int
	// crowded: it is pods, most of all, that come and go.
	crowded bool
	// peered: Networks serve each other, and it is they, pods and policies that change.
	peered bool
	// bounded: it is Services and Gateways of a tenant with quotas.
	bounded bool
}

var (
	networkNames = []string{"red", "blue", "default", "acme"}
	someSpaces   = []string{"x", "y"}
	somePods     = []string{"a", "b", "c", "d"}
	someNodes    = []string{"n1", "n2", "n3"}
	someServices = []string{"web", "api", "db"}
	// somePublished are addresses of load balancers, which several Services may have.
	somePublished = []string{"203.0.113.5", "10.0.1.3", "10.9.0.5", "10.244.0.9"}
)

func drawHistory(t *rapid.T) *history {
	h := &history{settings: settings{
		flat:    rapid.SampledFrom([]string{"", "blue"}).Draw(t, "flat"),
		small:   rapid.Bool().Draw(t, "few faces"),
		crowded: rapid.Bool().Draw(t, "crowded"),
		joined:  rapid.SampledFrom([]int{0, 2}).Draw(t, "joined at most"),
	}}
	if h.settings.peered = !h.settings.crowded && rapid.IntRange(0, 2).Draw(t, "peered") == 0; h.settings.peered {
		h.settings.flat = ""
	}
	h.settings.bounded = !h.settings.crowded && !h.settings.peered && rapid.Bool().Draw(t, "bounded")
	moment := time.Unix(1000, 0)
	if h.settings.bounded {
		h.batches = append(h.batches, batch{append(furnished(h.settings.small), tenanted()...), moment})
	} else if h.settings.peered {
		h.batches = append(h.batches, batch{append(furnished(h.settings.small), peeredSteps(h.settings.small)...), moment})
	} else if h.settings.crowded || rapid.Bool().Draw(t, "furnished") {
		h.batches = append(h.batches, batch{furnished(h.settings.small), moment})
	}
	for range rapid.IntRange(1, 12).Draw(t, "batches") {
		var b batch
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			b.steps = append(b.steps, h.drawSteps(t)...)
		}
		moment = moment.Add(time.Duration(rapid.SampledFrom([]int{1, 300, 2500, 10000}).Draw(t, "after")) * time.Millisecond)
		b.moment = moment
		h.batches = append(h.batches, b)
	}
	return h
}

// furnished is a cluster in which pods have faces.
func furnished(small bool) []step {
	cidr := "10.0.0.0/29"
	if small {
		cidr = "10.0.0.0/24"
	}
	return []step{
		{"Network default", func(w *world) { w.makeNetwork(network("default", "pods", "10.244.0.0/28")) }},
		{"Network red", func(w *world) { w.makeNetwork(network("red", "s", cidr)) }},
		{"Node n1", func(w *world) { w.makeNode(node("n1", 1), true) }},
		{"Namespace x", func(w *world) { w.setNamespace("x", map[string]string{model.LabelNetwork: "red"}) }},
		{"Namespace y", func(w *world) { w.setNamespace("y", map[string]string{model.LabelNetwork: "red"}) }},
	}
}

// tenanted is a Tenant with quotas whose namespaces these are, and who may have a Gateway.
func tenanted() []step {
	limited := tenant("acme")
	limited.UID = "uid-tenant-acme-0"
	limited.Services, limited.Gateways = model.Quota{Bounded: true, Hard: 1}, model.Quota{Bounded: true, Hard: 1}
	out := []step{
		{"Tenant acme", func(w *world) { w.setTenant(limited) }},
		{"Class", func(w *world) { w.setClass(model.GatewayClass{Name: "atoll", UID: "class"}) }},
	}
	for _, ns := range someSpaces {
		labels := map[string]string{model.LabelNetwork: "red", model.LabelTenant: "acme"}
		out = append(out, step{"Namespace " + ns, func(w *world) { w.setNamespace(ns, labels) }})
	}
	return out
}

// drawSteps is what one user does: mostly one step.
func (h *history) drawSteps(t *rapid.T) []step {
	h.serial++
	ns := rapid.SampledFrom(someSpaces).Draw(t, "namespace")
	who := rapid.SampledFrom(somePods).Draw(t, "name")
	one := func(on string, do func(*world)) []step { return []step{{on, do}} }
	kinds := rapid.IntRange(0, 26)
	if h.settings.crowded {
		kinds = rapid.SampledFrom([]int{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 0, 3, 13, 15, 16, 17, 18, 19, 20, 23, 25})
	}
	if h.settings.bounded {
		kinds = rapid.SampledFrom([]int{16, 16, 16, 16, 18, 18, 18, 18, 23, 23, 23, 23, 23, 23, 25, 25, 25, 0, 3, 6, 19, 22, 24})
	}
	if h.settings.peered {
		kinds = rapid.SampledFrom([]int{0, 0, 0, 0, 0, 2, 3, 6, 6, 6, 6, 6, 11, 11, 13, 13, 15, 20, 20, 20, 20, 20})
	}
	switch kinds.Draw(t, "step") {
	case 0, 1:
		n := h.drawNetwork(t)
		return one("Network "+n.Name, func(w *world) { w.makeNetwork(n) })
	case 2:
		name := rapid.SampledFrom(networkNames).Draw(t, "network")
		return one("Network "+name, func(w *world) {
			if n := w.networks[name]; n != nil {
				gone := *n
				gone.Deleting = true
				w.setNetwork(gone)
			}
		})
	case 3, 4:
		labels := map[string]string{}
		if rapid.Bool().Draw(t, "labelled") {
			labels[model.LabelNetwork] = rapid.SampledFrom(networkNames).Draw(t, "network")
		}
		if rapid.Bool().Draw(t, "infrastructure") {
			labels[model.LabelInfrastructure] = "true"
		}
		if rapid.Bool().Draw(t, "tenant") {
			labels[model.LabelTenant] = "acme"
		}
		return one("Namespace "+ns, func(w *world) { w.setNamespace(ns, labels) })
	case 5:
		return goneNamespace(ns)
	case 6, 7, 8, 9, 10:
		p, same := h.drawPod(t, ns, who)
		if h.settings.crowded && !same {
			p.Network, p.Node, p.Unwritable = "", "n1", ""
		}
		return one("Pod "+p.Key.String(), func(w *world) { w.makePod(p, same) })
	case 11, 12:
		key := model.PodKey{Namespace: ns, Name: who}
		return one("Pod "+key.String(), func(w *world) { w.gonePod(key) })
	case 13, 14:
		n, same := h.drawNode(t)
		return one("Node "+n.Name, func(w *world) { w.makeNode(n, same) })
	case 15:
		name := rapid.SampledFrom(someNodes).Draw(t, "node")
		return one("Node "+name, func(w *world) {
			if w.nodes[name] != nil {
				w.deleteNode(name)
			}
		})
	case 16, 17:
		s := h.drawService(t, ns)
		return one("Service "+s.Key.String(), func(w *world) { w.makeService(s) })
	case 18:
		key := model.ServiceKey{Namespace: ns, Name: rapid.SampledFrom(someServices).Draw(t, "service")}
		return one("Service "+key.String(), func(w *world) {
			if w.services[key] != nil {
				w.deleteService(key)
			}
		})
	case 19:
		s := drawSlice(t, ns, who)
		gone := rapid.Bool().Draw(t, "gone")
		return one("Slice "+ns+" "+s.Key.Name, func(w *world) {
			if !gone {
				w.setSlice(s)
			} else if w.slices[s.Key] != nil {
				w.deleteSlice(s.Key)
			}
		})
	case 20, 21:
		p := drawPolicy(t, ns, who)
		gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
		return one(p.Key.String(), func(w *world) {
			if !gone {
				w.setPolicy(p)
			} else if w.policies[p.Key] != nil {
				w.deletePolicy(p.Key)
			}
		})
	case 22:
		if gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0; gone {
			return one("Class", func(w *world) {
				if w.classes["atoll"] != nil {
					w.deleteClass("atoll")
				}
			})
		}
		return one("Class", func(w *world) { w.setClass(model.GatewayClass{Name: "atoll", UID: "class"}) })
	case 23:
		return h.drawGateway(t, ns, who)
	case 25, 26:
		return one("Tenant acme", h.drawTenant(t))
	}
	r := tcpRoute(ns, "web-"+who, who, "web")
	if rapid.Bool().Draw(t, "one listener") {
		r.Parents[0].Section = "web"
	}
	gone := rapid.Bool().Draw(t, "gone")
	return one("Route "+ns+" "+r.Key.Name, func(w *world) {
		if !gone {
			w.setRoute(r)
		} else if w.routes[r.Key] != nil {
			w.deleteRoute(r.Key)
		}
	})
}

func (h *history) drawNetwork(t *rapid.T) model.Network {
	name := rapid.SampledFrom(networkNames).Draw(t, "network")
	// Networks with ranges of their own may be joined.
	its := fmt.Sprintf("10.5.%d.0/29", slices.Index(networkNames, name))
	n := network(name, "s", rapid.SampledFrom([]string{"10.0.0.0/29", "10.96.0.8/29", its}).Draw(t, "cidr"), "t", "10.0.1.0/29")
	n.Subnets = n.Subnets[:rapid.IntRange(1, 2).Draw(t, "subnets")]
	if name == h.settings.flat {
		n = network(name, "s", rapid.SampledFrom([]string{"10.3.0.0/29", "10.3.0.8/29", "10.3.0.0/28", "10.0.1.0/29"}).Draw(t, "range"))
		n.Type = model.Flat
	}
	n.Created = time.Unix(rapid.Int64Range(0, 3).Draw(t, "made"), 0)
	if h.settings.small {
		for i := range n.Subnets {
			n.Subnets[i].CIDRs[0] = netip.PrefixFrom(n.Subnets[i].CIDRs[0].Addr(), 24).Masked()
		}
	}
	switch rapid.SampledFrom([]string{"all", "the tenant's", "those that name it"}).Draw(t, "namespaces of the Network") {
	case "the tenant's":
		n.Tenant, n.Allowed = "acme", nil
	case "those that name it":
		n.Allowed = nil
	}
	if rapid.IntRange(0, 3).Draw(t, "vpc") == 0 {
		n.VPCID = "vpc-1"
	}
	n.Ingress = rapid.SampledFrom([]model.InfraIngress{model.InfraIngressInfrastructure, model.InfraIngressNone, model.InfraIngressAll}).Draw(
		t, "ingress")
	n.Infra = rapid.SampledFrom([]model.InfraAccess{model.InfraServices, model.InfraServices, model.InfraServices, model.InfraDirect}).Draw(t,
		"infrastructure")
	if n.Type == model.VPC {
		switch rapid.IntRange(0, 4).Draw(t, "who answers for names") {
		case 0, 1:
			n.DNS, n.DNSService = model.DNSService, model.ServiceRef{Namespace: rapid.SampledFrom(someSpaces).Draw(t, "its namespace"), Name: "web"}
		case 2:
			n.DNS = model.DNSNone
		}
		n.CompatibleWith = rapid.SampledFrom([][]model.CompatiblePeer{
			nil, nil,
			{{All: true}},
			{{Network: "red"}, {Network: "blue"}},
			{{Tenant: "acme"}},
			{{Tenant: "acme", Mode: model.Routed}},
			{{Network: "red", Mode: model.Routed}},
			{{All: true, Addresses: true}},
			{{Network: "red", Addresses: true}},
		}).Draw(t, "compatible")
		n.Uses = rapid.SampledFrom([][]string{nil, {"red"}, {"blue"}}).Draw(t, "uses")
		n.UsesAddressesOf = rapid.SampledFrom([][]string{nil, nil, {"red"}, {"blue"}}).Draw(t, "uses addresses of")
		if h.settings.peered {
			peer(&n, func(what string) bool { return rapid.Bool().Draw(t, what) })
		}
	}
	if cidr := rapid.SampledFrom([]string{"", "10.9.0.0/30", "10.9.0.0/29", "10.9.0.4/30", "10.0.1.0/30", "198.18.0.0/30"}).Draw(t,
		"services"); cidr != "" {
		n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)}
	}
	return n
}

// makeNetwork makes a Network, or changes the one that is there.
func (w *world) makeNetwork(n model.Network) {
	n.Generation = 1
	if old := w.networks[n.Name]; old != nil {
		n.UID, n.Created, n.Finalized, n.Served, n.Isolated, n.Deleting = old.UID, old.Created, old.Finalized, old.Served, old.Isolated,
			old.Deleting
		n.Generation = old.Generation
		if !reflect.DeepEqual(n, *old) {
			n.Generation++
		}
	} else {
		// Whoever makes it anew makes another.
		w.made++
		n.UID = fmt.Sprintf("uid-%s-%d", n.Name, w.made)
	}
	w.setNetwork(n)
}

// drawTenant makes or changes a Tenant, or deletes it.
func (h *history) drawTenant(t *rapid.T) func(*world) {
	drawn := tenant("acme")
	drawn.UID = fmt.Sprintf("uid-tenant-acme-%d", h.serial)
	bound := func(what string) model.Quota {
		hard := rapid.Int64Range(-1, 3).Draw(t, what)
		return model.Quota{Bounded: hard >= 0, Hard: max(hard, 0)}
	}
	drawn.Networks, drawn.Pods = bound("quota of Networks"), bound("quota of pods")
	drawn.Services, drawn.Gateways = bound("quota of Services"), bound("quota of Gateways")
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return func(w *world) { w.endTenant("acme") }
	}
	return func(w *world) {
		made := drawn
		if old := w.tenants.objects["acme"]; old != nil {
			made.UID, made.Finalized, made.Isolated, made.Deleting, made.Generation = old.UID, old.Finalized, old.Isolated, old.Deleting,
				old.Generation
			if !reflect.DeepEqual(made, *old) {
				made.Generation++
			}
		}
		w.setTenant(made)
	}
}

func (h *history) drawPod(t *rapid.T, ns, name string) (p model.Pod, same bool) {
	p = asking(ns, name, rapid.SampledFrom([]string{"", "", "", "red", "gone"}).Draw(t, "label"), model.NICRequest{})
	p.UID, p.Created = fmt.Sprintf("uid-%s-%d", p.Key, h.serial), time.Unix(int64(h.serial), 0)
	p.Node = rapid.SampledFrom([]string{"n1", "n1", "n1", "n2", "n3"}).Draw(t, "node")
	p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")}
	if rapid.Bool().Draw(t, "named port") {
		p.Ports = []model.PodPort{{Name: "http", Protocol: model.TCP, Port: rapid.SampledFrom([]uint16{80, 8080}).Draw(t, "number")}}
	}
	if !h.settings.small && rapid.IntRange(0, 2).Draw(t, "fixed") == 0 {
		p.NIC.IP = at(fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 9).Draw(t, "ip")))
	}
	if rapid.IntRange(0, 9).Draw(t, "full") == 0 {
		p.Unwritable = "too long"
	}
	return p, rapid.Bool().Draw(t, "the same pod")
}

// makePod makes a pod; the same: one that is there is changed.
func (w *world) makePod(p model.Pod, same bool) {
	if old := w.pods[p.Key]; old != nil && (same || old.UID == p.UID) {
		p.UID, p.Created, p.Assigned, p.Node, p.NIC, p.Ports = old.UID, old.Created, old.Assigned, old.Node, old.NIC, old.Ports
	}
	w.setPod(p)
}

func (w *world) gonePod(key model.PodKey) {
	if w.pods[key] != nil {
		w.deletePod(key)
	}
}

func (h *history) drawNode(t *rapid.T) (n model.Node, same bool) {
	n = node(rapid.SampledFrom(someNodes).Draw(t, "node"), rapid.Int64Range(1, 3).Draw(t, "age"))
	n.UID = fmt.Sprintf("%s-%d", n.UID, h.serial)
	n.Labels = map[string]string{"zone": rapid.SampledFrom([]string{"one", "two"}).Draw(t, "zone")}
	if zone := rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "topology"); zone != "" {
		n.Labels[model.LabelZone] = zone
	}
	for _, a := range []string{"192.168.0.1", "192.168.0.2", "10.0.1.6", "10.5.0.2", "100.64.0.2"} {
		if rapid.IntRange(0, 3).Draw(t, a) == 0 {
			n.Addresses = append(n.Addresses, at(a))
		}
	}
	slices.SortFunc(n.Addresses, netip.Addr.Compare)
	return n, rapid.IntRange(0, 3).Draw(t, "another") != 0
}

func (w *world) makeNode(n model.Node, same bool) {
	if old := w.nodes[n.Name]; old != nil && (same || old.UID == n.UID) {
		n.UID, n.Created, n.Assigned = old.UID, old.Created, old.Assigned
	}
	w.setNode(n)
}

// goneNamespace is the end of a namespace and of all that is in it, which may be seen in any order.
func goneNamespace(ns string) []step {
	out := []step{{"Namespace " + ns, func(w *world) {
		if _, there := w.namespaces[ns]; there {
			w.deleteNamespace(ns)
		}
	}}}
	add := func(on string, do func(*world)) { out = append(out, step{on, do}) }
	for _, name := range somePods {
		pod, gateway := model.PodKey{Namespace: ns, Name: name}, model.GatewayKey{Namespace: ns, Name: name}
		add("Pod "+pod.String(), func(w *world) { w.gonePod(pod) })
		add("Gateway "+ns+" "+name, func(w *world) {
			if w.gateways[gateway] != nil {
				w.deleteGateway(gateway)
			}
		})
	}
	for _, name := range someServices {
		key := model.ServiceKey{Namespace: ns, Name: name}
		add("Service "+key.String(), func(w *world) {
			if w.services[key] != nil {
				w.deleteService(key)
			}
		})
	}
	// In the order in which anybody finds them: each step is on another object.
	add("what is left in "+ns, func(w *world) {
		for _, key := range slices.Collect(maps.Keys(w.slices)) {
			if key.Namespace == ns {
				w.deleteSlice(key)
			}
		}
		for _, key := range slices.Collect(maps.Keys(w.policies)) {
			if key.Namespace == ns {
				w.deletePolicy(key)
			}
		}
		for _, key := range slices.Collect(maps.Keys(w.routes)) {
			if key.Namespace == ns {
				w.deleteRoute(key)
			}
		}
	})
	return out
}
