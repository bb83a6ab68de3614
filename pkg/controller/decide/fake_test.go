package decide_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// cluster is an API server that fits in a test: a Source whose objects the test sets, and a Sink that applies
// what the controller writes to them.
type cluster struct {
	mu       sync.Mutex
	ready    wake.Signal
	changes  model.Changes
	pods     map[model.PodKey]*model.Pod
	networks map[string]*model.Network
	// namespaces are their labels.
	namespaces map[string]map[string]string
	nodes      map[string]*model.Node
	told       map[string]*model.NodeReport
	shutOut    *model.ShutOut
	services   map[model.ServiceKey]*model.Service
	slices     map[model.SliceKey]*model.Slice
	classes    map[string]*model.GatewayClass
	gateways   map[model.GatewayKey]*model.Gateway
	routes     map[model.RouteKey]*model.Route
	grants     map[model.GrantKey]*model.Grant
	statuses   map[string]model.NetworkStatus
	// reports are all statuses of each Network that were handed over, in their order.
	reports  map[string][]model.NetworkStatus
	shown    shownGateways
	tenants  tenancy
	policies map[model.PolicyKey]*model.Policy
	mirrors  map[model.ServiceKey][]model.Mirror
	views    map[model.ViewKey]model.View
	seen     int
	events   map[string][]model.Problem
	// eventsBy are the Events of each object by its UID, in their order.
	eventsBy map[string][]model.Problem
	patches  int
	// showing and showingGateway are called with each status of a Network, or Gateway, before it is shown; they may be nil.
	showing        func(name string, s model.NetworkStatus)
	showingGateway func(key model.GatewayKey, s model.GatewayStatus)
}

func newCluster() *cluster {
	c := &cluster{
		ready: wake.NewSignal(), pods: map[model.PodKey]*model.Pod{}, networks: map[string]*model.Network{}, nodes: map[string]*model.Node{},
		told: map[string]*model.NodeReport{}, services: map[model.ServiceKey]*model.Service{}, slices: map[model.SliceKey]*model.Slice{},
		namespaces: map[string]map[string]string{}, eventsBy: map[string][]model.Problem{},
		statuses: map[string]model.NetworkStatus{}, reports: map[string][]model.NetworkStatus{}, events: map[string][]model.Problem{},
		mirrors: map[model.ServiceKey][]model.Mirror{}, views: map[model.ViewKey]model.View{},
		classes: map[string]*model.GatewayClass{}, gateways: map[model.GatewayKey]*model.Gateway{},
		routes: map[model.RouteKey]*model.Route{}, grants: map[model.GrantKey]*model.Grant{}, shown: newShownGateways(), tenants: newTenancy(),
		policies: map[model.PolicyKey]*model.Policy{},
	}
	c.changes = model.NewChanges()
	return c
}

func (c *cluster) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.ready.Send()
}

func (c *cluster) setNetwork(n model.Network) {
	c.change(func() { c.networks[n.Name] = &n; c.changes.Networks[n.Name] = &n })
}

func (c *cluster) setNamespace(name string, labels map[string]string) {
	c.change(func() {
		c.namespaces[name] = labels
		c.changes.Namespaces[name] = &model.Namespace{Name: name, Labels: labels}
	})
}

func (c *cluster) deleteNamespace(name string) {
	c.change(func() { delete(c.namespaces, name); c.changes.Namespaces[name] = nil })
}

func (c *cluster) setPod(p model.Pod) {
	c.change(func() { c.pods[p.Key] = &p; c.changes.Pods[p.Key] = &p })
}

func (c *cluster) deletePod(key model.PodKey) {
	c.change(func() { delete(c.pods, key); c.changes.Pods[key] = nil })
}

// replay gives everything again, as a fresh list does.
func (c *cluster) replay(namespaces map[string]map[string]string) {
	c.change(func() {
		for n, labels := range namespaces {
			c.changes.Namespaces[n] = &model.Namespace{Name: n, Labels: labels}
		}
		maps.Copy(c.changes.Pods, c.pods)
		maps.Copy(c.changes.Networks, c.networks)
		maps.Copy(c.changes.Tenants, c.tenants.objects)
		maps.Copy(c.changes.Nodes, c.nodes)
		maps.Copy(c.changes.Reports, c.told)
		c.changes.ShutOut["list"] = c.shutOut
		maps.Copy(c.changes.Services, c.services)
		maps.Copy(c.changes.Slices, c.slices)
		maps.Copy(c.changes.Classes, c.classes)
		maps.Copy(c.changes.Gateways, c.gateways)
		maps.Copy(c.changes.Routes, c.routes)
		maps.Copy(c.changes.Grants, c.grants)
		maps.Copy(c.changes.Policies, c.policies)
	})
}

func (c *cluster) Ready() <-chan struct{} { return c.ready }
func (c *cluster) Synced() bool           { return true }

func (c *cluster) Take() model.Changes {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.changes
	c.changes = model.NewChanges()
	return taken
}

// quiet reports whether nobody has anything to take.
func (c *cluster) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes.Empty()
}

func (c *cluster) WriteAttachments(key model.PodKey, uid string, list []model.Attachment) {
	c.change(func() {
		c.patches++
		if p := c.pods[key]; p != nil && p.UID == uid {
			updated := *p
			updated.Assigned = list
			c.pods[key], c.changes.Pods[key] = &updated, &updated
		}
	})
}

func (c *cluster) WriteNode(name, uid string, n model.NodeNetwork) {
	c.change(func() {
		c.patches++
		if old := c.nodes[name]; old != nil && old.UID == uid {
			updated := *old
			updated.Assigned = &n
			c.nodes[name], c.changes.Nodes[name] = &updated, &updated
		}
	})
}

func (c *cluster) WriteServiceAddresses(key model.ServiceKey, uid string, a *model.ServiceAddresses) {
	c.change(func() {
		c.patches++
		if old := c.services[key]; old != nil && old.UID == uid {
			updated := *old
			updated.Assigned = a
			c.services[key], c.changes.Services[key] = &updated, &updated
		}
	})
}

func (c *cluster) WriteViews(changed map[model.ViewKey]*model.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, v := range changed {
		c.seen++
		if delete(c.views, key); v != nil {
			c.views[key] = *v
		}
	}
}

func (c *cluster) WriteMirrors(of map[model.ServiceKey][]model.Mirror) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.mirrors, of)
}

func (c *cluster) Forget(model.PodKey) {}

// WriteNetworkStatus keeps the ranges that are served, and the verdict on isolation, on the Network, where controllers find them.
func (c *cluster) WriteNetworkStatus(name, uid string, s model.NetworkStatus) {
	if c.showing != nil {
		c.showing(name, s)
	}
	var served []model.ServedRange
	for _, r := range s.Subnets {
		served = append(served, model.ServedRange{Subnet: r.Name, CIDR: netip.MustParsePrefix(r.CIDR), Gateway: netip.MustParseAddr(r.Gateway)})
	}
	c.mu.Lock()
	old := c.networks[name]
	c.mu.Unlock()
	if old != nil && old.UID == uid && (!slices.Equal(old.Served, served) || old.Isolated != overall(s.Isolation)) {
		c.change(func() {
			updated := *old
			updated.Served, updated.Isolated = served, overall(s.Isolation)
			c.networks[name], c.changes.Networks[name] = &updated, &updated
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[name] = s
	c.reports[name] = append(c.reports[name], s)
}

// overall is the verdict of a status; empty: none.
func overall(i *model.Isolation) model.Hardness {
	if i == nil {
		return ""
	}
	return i.Overall
}

// phases are those that were reported of a Network since they were asked for last, in their order.
func (c *cluster) phases(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, s := range c.reports[name] {
		out = append(out, string(s.Phase))
	}
	delete(c.reports, name)
	return strings.Join(out, " ")
}

func (c *cluster) WriteFinalizer(name, uid string, present bool) {
	c.change(func() {
		n := c.networks[name]
		if n == nil || n.UID != uid {
			return
		}
		if !present && n.Deleting {
			delete(c.networks, name)
			c.changes.Networks[name] = nil
			return
		}
		updated := *n
		updated.Finalized = present
		c.networks[name], c.changes.Networks[name] = &updated, &updated
	})
}

// Event notes an Event, by whom it is about and by that one's UID.
func (c *cluster) Event(about model.ObjectRef, p model.Problem) {
	name := about.Name
	switch about.Kind {
	case "Pod":
		name = about.Namespace + "/" + name
	case "Node", "Namespace", "Tenant":
		name = strings.ToLower(about.Kind) + " " + name
	case "Service":
		name = "service " + about.Namespace + "/" + name
	case string(model.NetworkPolicy), string(model.ClusterNetworkPolicy):
		name = model.PolicyKey{Kind: model.PolicyKind(about.Kind), Namespace: about.Namespace, Name: name}.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[name] = append(c.events[name], p)
	c.eventsBy[name+" "+about.UID] = append(c.eventsBy[name+" "+about.UID], p)
}

func (c *cluster) setPolicy(p model.Policy) {
	c.change(func() { c.policies[p.Key] = &p; c.changes.Policies[p.Key] = &p })
}

func (c *cluster) deletePolicy(key model.PolicyKey) {
	c.change(func() { delete(c.policies, key); c.changes.Policies[key] = nil })
}

func (c *cluster) setNode(n model.Node) {
	c.change(func() { c.nodes[n.Name] = &n; c.changes.Nodes[n.Name] = &n })
}

func (c *cluster) setReport(r model.NodeReport) {
	c.change(func() { c.told[r.Node] = &r; c.changes.Reports[r.Node] = &r })
}

func (c *cluster) setShutOut(nodes ...string) {
	c.change(func() { c.shutOut = &model.ShutOut{Nodes: nodes}; c.changes.ShutOut["list"] = c.shutOut })
}

func (c *cluster) deleteReport(node string) {
	c.change(func() { delete(c.told, node); c.changes.Reports[node] = nil })
}

func (c *cluster) setService(s model.Service) {
	c.change(func() { c.services[s.Key] = &s; c.changes.Services[s.Key] = &s })
}

func (c *cluster) deleteService(key model.ServiceKey) {
	c.change(func() { delete(c.services, key); c.changes.Services[key] = nil })
}

func (c *cluster) setSlice(s model.Slice) {
	c.change(func() { c.slices[s.Key] = &s; c.changes.Slices[s.Key] = &s })
}

func (c *cluster) deleteSlice(key model.SliceKey) {
	c.change(func() { delete(c.slices, key); c.changes.Slices[key] = nil })
}

func (c *cluster) deleteNode(name string) {
	c.change(func() { delete(c.nodes, name); c.changes.Nodes[name] = nil })
}

// given is what is written on a node; the zero value when nothing is.
func (c *cluster) given(name string) model.NodeNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[name]; n != nil && n.Assigned != nil {
		return *n.Assigned
	}
	return model.NodeNetwork{}
}

func (c *cluster) status(name string) model.NetworkStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statuses[name]
}

func (c *cluster) attachment(key model.PodKey) *model.Attachment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[key]; p != nil && len(p.Assigned) > 0 {
		return &p.Assigned[0]
	}
	return nil
}

func (c *cluster) eventsOf(name string) []model.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[name]
}

// network is a vpc Network for all namespaces, with subnets given as name, CIDR pairs.
func network(name string, subnets ...string) model.Network {
	n := model.Network{Name: name, UID: "uid-" + name, Type: model.VPC, Created: time.Unix(1, 0), Allowed: &match.Selector{}}
	for i := 0; i < len(subnets); i += 2 {
		n.Subnets = append(n.Subnets, model.Subnet{Name: subnets[i], CIDRs: []netip.Prefix{netip.MustParsePrefix(subnets[i+1])}})
	}
	return n
}

var born int

// tenantNetwork is one for the namespaces of a tenant.
func tenantNetwork(tenant, name string, subnets ...string) model.Network {
	n := network(name, subnets...)
	n.Tenant, n.Allowed = tenant, nil
	return n
}

// pod is a pod of node n1 in namespace ns that names a Network.
func pod(ns, name, network string) model.Pod {
	born++
	return model.Pod{
		Key: model.PodKey{Namespace: ns, Name: name}, UID: fmt.Sprintf("uid-%s-%s-%d", ns, name, born),
		Node: "n1", Network: network, Created: time.Unix(int64(born), 0),
	}
}
