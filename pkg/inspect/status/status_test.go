package status

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/inspected"
)

// factsOf are those of a pod of which everything was asked.
func factsOf(w *inspected.World, key model.PodKey, events ...core.Event) podFacts {
	rows := readPodRows(w.T.Context(), inspected.Databases{World: w}, inspected.Databases{World: w}, key.First().PortName())
	return podFacts{object: w.Object(key), events: events, rows: &rows}
}

func TestNetworksGolden(t *testing.T) {
	t.Parallel()
	w := inspected.InspectedWorld(t)
	shown := w.Statuses["blue"]
	shown.Phase = model.Degraded
	w.Statuses["blue"] = shown
	inspected.GoldenValue(t, "networks-two", api.NetworkList{TypeMeta: inspected.ListType("NetworkList"), Items: listNetworks(w.Held())})
	inspected.GoldenValue(t, "pods-red", api.PodList{TypeMeta: inspected.ListType("PodList"), Items: listPods(w.Held(), "red")})
	for _, name := range []string{"red", "blue"} {
		n, there := getNetwork(w.Held(), name)
		if !there {
			t.Fatal(name)
		}
		if name == "blue" {
			w.Delete(inspected.Find[*nb.LogicalSwitch](w, "blue/back"))
		}
		addRows(t.Context(), inspected.Databases{World: w}, &n, "default")
		inspected.GoldenValue(t, "network-"+name, n)
	}
	if n, _ := getNetwork(w.Held(), "blue"); strings.Contains(fmt.Sprint(n.Status.Detail.Namespaces), "intruder") {
		t.Error("it tells of a namespace that it does not admit")
	}
	n, _ := getNetwork(w.Held(), "red")
	addRows(t.Context(), inspected.Databases{World: w, Down: errors.New("10.0.0.9 is away")}, &n, "default")
	if n.Status.Detail.Problem != "the northbound database does not answer" {
		t.Errorf("of a database that is away it tells %q", n.Status.Detail.Problem)
	}
}

// TestPodLayersGolden: for each thing that can be missing, the layer is marked, and the first of them is the verdict.
func TestPodLayersGolden(t *testing.T) {
	t.Parallel()
	web := model.PodKey{Namespace: "red", Name: "web-0"}
	event := func(component, reason, message string) core.Event {
		return core.Event{Source: core.EventSource{Component: component}, Reason: reason, Message: message}
	}
	for name, c := range map[string]struct {
		key model.PodKey
		// damage breaks the world, change what is told of it.
		damage func(w *inspected.World)
		change func(f *podFacts)
		events []core.Event
		// first is the first layer that is missing; empty: none is.
		first string
	}{
		"well": {key: web},
		"no-port": {
			key: web, damage: func(w *inspected.World) { w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0")) }, first: layerNorthbound,
		},
		"other-address": {key: web, damage: func(w *inspected.World) {
			inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0").Addresses = []string{"unknown"}
		}, first: layerNorthbound},
		"no-binding": {key: web, damage: func(w *inspected.World) { delete(w.Bindings, "red/web-0") }, first: layerSouthbound},
		"unbound":    {key: web, damage: func(w *inspected.World) { w.Bindings["red/web-0"] = ovn.Binding{} }, first: layerSouthbound},
		"elsewhere": {key: web, damage: func(w *inspected.World) {
			w.Bindings["red/web-0"] = ovn.Binding{Chassis: "n7", Hostname: "n7", Up: true}
		}, first: layerSouthbound},
		"not-up": {
			key: web, damage: func(w *inspected.World) { w.Bindings["red/web-0"] = ovn.Binding{Chassis: "n1", Hostname: "n1"} },
			first: layerSouthbound,
		},
		"no-agent": {key: web, damage: func(w *inspected.World) { delete(w.Objects.Reports, "n1") }, first: layerNode},
		"no-network": {
			key: web, damage: func(w *inspected.World) { w.AddPod("red", "web-0", "n1").Network = "nowhere" },
			events: []core.Event{
				event("atoll-controller", "NetworkNotFound",
					`Network "nowhere", which the pod's label atoll.dev/network names, does not exist or does not admit namespace "red"`),
			}, first: layerNetwork,
		},
		"not-admitted": {key: web, damage: func(w *inspected.World) { w.AddPod("red", "web-0", "n1").Network = "blue" }, first: layerNetwork},
		"refused": {
			key: web, damage: func(w *inspected.World) {
				w.AddPod("red", "web-0", "n1")
				w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0"))
				delete(w.Bindings, "red/web-0")
			},
			events: []core.Event{
				event("kubelet", "FailedCreatePodSandBox", "no"), event("atoll-controller", "SubnetFull", "subnet front has no address left"),
			}, first: layerAddress,
		},
		"no-face": {
			key: web, change: func(f *podFacts) { f.object.Status = core.PodStatus{Phase: core.PodPending} },
			events: []core.Event{event("kubelet", "FailedCreatePodSandBox", "the agent does not answer")}, first: layerFace,
		},
		"other-face": {key: web, change: func(f *podFacts) { f.object.Status.PodIPs[0].IP = "100.64.9.9" }, first: layerFace},
		"not-asked":  {key: web, change: func(f *podFacts) { f.rows = nil }},
		"not-answered": {key: web, change: func(f *podFacts) {
			f.rows = &podRows{northboundError: errors.New("10.0.0.9"), southboundError: errors.New("10.0.0.9")}
		}},
		"host":     {key: web, change: func(f *podFacts) { f.object.Spec.HostNetwork = true }},
		"finished": {key: web, change: func(f *podFacts) { f.object.Status.Phase = core.PodSucceeded }},
		"no-node": {key: web, change: func(f *podFacts) {
			f.object.Spec.NodeName = ""
			f.object.Status.Conditions = []core.PodCondition{
				{Type: core.PodScheduled, Status: core.ConditionFalse, Message: "0/3 nodes are available"},
			}
		}, first: layerObject},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inspected.InspectedWorld(t)
			if c.damage != nil {
				c.damage(w)
			}
			f := factsOf(w, c.key, c.events...)
			if c.change != nil {
				c.change(&f)
			}
			got := podLayers(w.Held(), f)
			inspected.GoldenValue(t, "pod-"+name, got)
			first := ""
			for _, l := range got.Status.Layers {
				if l.State == api.LayerMissing {
					first = l.Name
					break
				}
			}
			if first != c.first || (first != "" && !strings.HasPrefix(got.Status.Verdict, first+": ")) {
				t.Errorf("the first that is missing is %q, want %q; the verdict: %s", first, c.first, got.Status.Verdict)
			}
		})
	}
}

// certify gives authorities, of which one ends in some days, and the databases' members certificates, of which one of two of n1
// ends in others.
func certify(f *clusterFacts, authority, member int) {
	in := func(days int) time.Time { return f.now.AddDate(0, 0, days) }
	f.authorities = map[string]time.Time{"atoll-ca-central": in(1800), "atoll-ca-node": in(authority), "atoll-ca-agent": in(1800)}
	shows := func(server *ovn.ServerStatus, node string, days int) {
		server.Certificate = &x509.Certificate{
			Subject: pkix.Name{CommonName: "atoll-ovn-central:" + node}, NotBefore: in(days - 90), NotAfter: in(days),
		}
	}
	shows(&f.databases[0].servers[0], "n1", 85)
	shows(&f.databases[0].servers[1], "n2", 85)
	shows(&f.databases[1].servers[0], "n1", member)
}

func TestClusterGolden(t *testing.T) {
	t.Parallel()
	began := time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC)
	node := func(name string, ready core.ConditionStatus) core.Node {
		return core.Node{
			ObjectMeta: meta.ObjectMeta{Name: name}, Status: core.NodeStatus{
				Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: ready}},
			},
		}
	}
	well := func() clusterFacts {
		server := func(n int, leads bool, index int64) ovn.ServerStatus {
			return ovn.ServerStatus{Address: fmt.Sprintf("ssl:192.0.2.%d:6641", n), Clustered: true, Connected: true, Leader: leads, Index: index}
		}
		return clusterFacts{
			source: "atoll-inspect n1", now: began.Add(time.Hour),
			lease: &coordination.Lease{Spec: coordination.LeaseSpec{
				HolderIdentity: new("n1_4711"), LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &meta.MicroTime{Time: began},
				RenewTime: &meta.MicroTime{Time: began.Add(time.Hour - 2*time.Second)},
			}},
			deployments: []apps.Deployment{
				{
					ObjectMeta: meta.ObjectMeta{Name: "atoll-controller"},
					Spec: apps.DeploymentSpec{
						Replicas: ptr.To[int32](2), Template: core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{Image: "atoll:v0.1.0"}}}},
					}, Status: apps.DeploymentStatus{ReadyReplicas: 2},
				},
			},
			daemons: []apps.DaemonSet{
				{ObjectMeta: meta.ObjectMeta{Name: "atoll-agent"}, Status: apps.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 2}},
			},
			nodes: []core.Node{node("n1", core.ConditionTrue), node("n2", core.ConditionTrue)},
			databases: []databaseFacts{
				{name: ovn.NorthboundDatabase, servers: []ovn.ServerStatus{server(1, true, 1007), server(2, false, 1007), server(3, false, 1004)}},
				{
					name: ovn.SouthboundDatabase, servers: []ovn.ServerStatus{{Address: "unix:/var/run/ovn/ovnsb_db.sock", Connected: true, Leader: true}},
				},
			},
			southbound: &southboundState{chassis: map[string]bool{"n1": true, "n2": true}},
		}
	}
	for name, c := range map[string]struct {
		damage func(*inspected.World, *clusterFacts)
		// objects are those of the problems.
		objects string
	}{
		"well":       {func(*inspected.World, *clusterFacts) {}, ""},
		"no-lease":   {func(_ *inspected.World, f *clusterFacts) { f.lease = nil }, "Lease/atoll-controller"},
		"silent":     {func(_ *inspected.World, f *clusterFacts) { f.now = f.now.Add(time.Minute) }, "Lease/atoll-controller"},
		"not-ready":  {func(_ *inspected.World, f *clusterFacts) { f.deployments[0].Status.ReadyReplicas = 1 }, "Deployment/atoll-controller"},
		"node-down":  {func(_ *inspected.World, f *clusterFacts) { f.nodes[1] = node("n2", core.ConditionUnknown) }, "Node/n2"},
		"no-agent":   {func(w *inspected.World, _ *clusterFacts) { delete(w.Objects.Reports, "n2") }, "Node/n2"},
		"no-chassis": {func(_ *inspected.World, f *clusterFacts) { f.southbound.chassis = map[string]bool{"n1": true} }, "Node/n2"},
		"member-away": {func(_ *inspected.World, f *clusterFacts) {
			f.databases[0].servers[2] = ovn.ServerStatus{Address: "ssl:192.0.2.3:6641", Err: errors.New("connection refused")}
		}, "Database/OVN_Northbound"},
		"no-quorum": {func(_ *inspected.World, f *clusterFacts) {
			for i := range f.databases[0].servers {
				f.databases[0].servers[i].Connected, f.databases[0].servers[i].Leader = false, false
			}
		}, "Database/OVN_Northbound Database/OVN_Northbound Database/OVN_Northbound Database/OVN_Northbound"},
		"southbound-away": {func(_ *inspected.World, f *clusterFacts) {
			f.southbound, f.southboundError = nil, errors.New("connection refused")
			f.databases[1].servers[0] = ovn.ServerStatus{Address: "unix:/var/run/ovn/ovnsb_db.sock", Err: errors.New("connection refused")}
		}, "Database/OVN_Southbound Database/OVN_Southbound Database/OVN_Southbound"},
		"behind": {func(w *inspected.World, f *clusterFacts) {
			w.AddPod("red", "new", "n1")
			f.southbound.unbound = 4
		}, ""},
		"certificates": {func(_ *inspected.World, f *clusterFacts) { certify(f, 365, 80) }, ""},
		"certificates-late": {
			func(_ *inspected.World, f *clusterFacts) { certify(f, 140, 19) },
			"Certificate/atoll-ca-node Certificate/atoll-ovn-central:n1",
		},
		"node-outside": {func(w *inspected.World, f *clusterFacts) {
			address := func(text string) core.NodeAddress { return core.NodeAddress{Type: core.NodeInternalIP, Address: text} }
			f.nodes[0].Status.Addresses = []core.NodeAddress{address("192.0.2.1"), address("fd00::1"), {Type: core.NodeHostName, Address: "n1"}}
			f.nodes[1].Status.Addresses = []core.NodeAddress{address("198.51.100.2")}
			w.Objects.Reports["n2"].Addresses = []netip.Addr{
				netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("203.0.113.2"),
			}
			w.Objects.Reports["n2"].Tunnels = []netip.Addr{netip.MustParseAddr("172.31.0.2")}
		}, "AtollConfig/cluster"},
		"nothing-allowed": {func(_ *inspected.World, f *clusterFacts) {
			no := errors.New("forbidden")
			*f = clusterFacts{source: f.source, now: f.now, leaseError: no, componentError: no, nodeError: no}
		}, "Lease/atoll-controller Namespace/atoll-system Nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := inspected.InspectedWorld(t), well()
			c.damage(w, &f)
			held, nodes := w.Held(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			// Of IPv6 it has none: then no address of that family passes.
			held.Pools.Claimable = config.Settings{
				Hosts: nodes, Nodes: nodes, Infra: []netip.Prefix{netip.MustParsePrefix("172.31.0.0/24")},
			}.Claimable
			got := statusOfCluster(held, f)
			inspected.GoldenValue(t, "cluster-"+name, got)
			var objects []string
			for _, p := range got.Status.Problems {
				objects = append(objects, p.Object)
			}
			if have := strings.Join(objects, " "); have != c.objects || got.Status.Healthy != (c.objects == "") {
				t.Errorf("healthy: %v, problems of %s; want those of %s", got.Status.Healthy, have, c.objects)
			}
		})
	}
}

// BenchmarkThousandNetworks is all of a list but the way to the user.
func BenchmarkThousandNetworks(b *testing.B) {
	h := snapshot.Held{Objects: model.NewChanges(), Default: "default", Status: func(string, string) (atoll.NetworkStatus, bool) {
		return atoll.NetworkStatus{Phase: atoll.NetworkReady, Subnets: make([]atoll.SubnetStatus, 2)}, true
	}}
	for i := range 1000 {
		name := fmt.Sprintf("network-%d", i)
		h.Objects.Networks[name] = &model.Network{Name: name, UID: name, Type: model.VPC}
	}
	for b.Loop() {
		if _, err := json.Marshal(listNetworks(h)); err != nil {
			b.Fatal(err)
		}
	}
}
