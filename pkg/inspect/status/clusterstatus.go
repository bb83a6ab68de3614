package status

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// clusterFacts is what is known of a cluster beside objects that are held. Each part has the error for which it is not known.
type clusterFacts struct {
	source string
	now    time.Time
	lease  *coordination.Lease
	// leaseError is nil when there is no Lease.
	leaseError     error
	deployments    []apps.Deployment
	daemons        []apps.DaemonSet
	componentError error
	nodes          []core.Node
	nodeError      error
	// authorities are when the certificates of each end, by its name.
	authorities    map[string]time.Time
	authorityError error
	// databases are none when nobody asked any.
	databases []databaseFacts
	// southbound is nil when it was not asked, or southboundError says why it is not known.
	southbound      *southboundState
	southboundError error
}

type databaseFacts struct {
	name    string
	servers []ovsdb.ServerStatus
	err     error
}

// statusOfCluster says how the cluster is.
func statusOfCluster(h snapshot.Held, f clusterFacts) api.Cluster {
	var out api.Cluster
	out.APIVersion, out.Kind, out.Name = api.GroupVersion().String(), "Cluster", api.ClusterName
	s := &out.Status
	s.Source, s.Problems, s.Nodes = f.source, []api.Problem{}, []api.Node{}
	s.Networks, s.Pods = len(h.Objects.Networks), len(h.Objects.Pods)
	problem := func(object, next, message string, args ...any) {
		s.Problems = append(s.Problems, api.Problem{Object: object, Message: fmt.Sprintf(message, args...), Next: next})
	}
	addLeader(s, f, problem)
	addDatabases(s, f, problem)
	addComponents(s, f, problem)
	addCertificates(s, f, problem)
	addNodes(s, h, f, problem)
	addClaimable(h, f, problem)
	addBehind(s, h, f)
	s.Healthy = len(s.Problems) == 0
	return out
}

// problemOf notes a problem of an object.
type problemOf func(object, next, message string, args ...any)

func addLeader(s *api.ClusterStatus, f clusterFacts, problem problemOf) {
	const object, next = "Lease/atoll-controller", "kubectl -n atoll-system get pods,lease"
	switch {
	case f.leaseError != nil:
		problem(object, "", "whether a controller leads is not known: %v", f.leaseError)
		return
	case f.lease == nil || ptr.Deref(f.lease.Spec.HolderIdentity, "") == "":
		problem(object, next, "no controller leads: nothing changes in OVN")
		return
	}
	spec := f.lease.Spec
	s.Leader = &api.Leader{
		Name: *spec.HolderIdentity, Since: ptr.Deref(spec.AcquireTime, metav1.MicroTime{}), Renewed: ptr.Deref(spec.RenewTime,
			metav1.MicroTime{}),
	}
	life := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	if silent := f.now.Sub(s.Leader.Renewed.Time); silent > life {
		problem(object, next, "no controller leads: %s was heard of last %s ago", s.Leader.Name, silent.Round(time.Second))
	}
}

func addDatabases(s *api.ClusterStatus, f clusterFacts, problem problemOf) {
	const next = "does its ovsdb-server run? docs/design/central.md"
	for _, d := range f.databases {
		out := api.Database{Name: d.name, Servers: []api.Server{}}
		object := "Database/" + d.name
		if d.err != nil {
			out.Problem = d.err.Error()
			problem(object, next, "%v", d.err)
		}
		foremost, leads := int64(0), false
		for _, server := range d.servers {
			foremost, leads, out.Clustered = max(foremost, server.Index), leads || server.Leader, out.Clustered || server.Clustered
		}
		for _, server := range d.servers {
			one := api.Server{Address: server.Address, Leader: server.Leader, Connected: server.Connected, Index: server.Index}
			switch {
			case server.Err != nil:
				one.Problem = server.Err.Error()
				problem(object, next, "%s does not answer: %v", server.Address, server.Err)
			case !server.Connected:
				problem(object, next, "%s is in contact with no majority of its cluster", server.Address)
			}
			if server.Err == nil && server.Clustered {
				one.Lag = foremost - server.Index
			}
			out.Servers = append(out.Servers, one)
		}
		if len(d.servers) > 0 && !leads {
			problem(object, next, "none of its servers leads: nothing can be written")
		}
		s.Databases = append(s.Databases, out)
	}
}

func addComponents(s *api.ClusterStatus, f clusterFacts, problem problemOf) {
	if f.componentError != nil {
		problem("Namespace/atoll-system", "", "its Deployments and DaemonSets cannot be read: %v", f.componentError)
	}
	image := func(spec core.PodSpec) string {
		if len(spec.Containers) == 0 {
			return ""
		}
		return spec.Containers[0].Image
	}
	for _, d := range f.deployments {
		s.Components = append(s.Components, api.Component{
			Kind: "Deployment", Name: d.Name, Image: image(d.Spec.Template.Spec), Ready: d.Status.ReadyReplicas, Wanted: ptr.Deref(d.Spec.Replicas,
				1),
		})
	}
	for _, d := range f.daemons {
		s.Components = append(s.Components, api.Component{
			Kind: "DaemonSet", Name: d.Name, Image: image(d.Spec.Template.Spec), Ready: d.Status.NumberReady,
			Wanted: d.Status.DesiredNumberScheduled,
		})
	}
	for _, c := range s.Components {
		if c.Ready < c.Wanted {
			problem(c.Kind+"/"+c.Name, "kubectl -n atoll-system get pods -o wide", "%d of %d pods are ready", c.Ready, c.Wanted)
		}
	}
}

func addNodes(s *api.ClusterStatus, h snapshot.Held, f clusterFacts, problem problemOf) {
	if f.nodeError != nil {
		problem("Nodes", "", "they cannot be read: %v", f.nodeError)
		return
	}
	if f.southboundError != nil {
		problem("Database/"+ovsdb.SouthboundDatabase, "does its ovsdb-server run?", "%v", f.southboundError)
	}
	pods := map[string]int{}
	for _, p := range h.Objects.Pods {
		pods[p.Node]++
	}
	for _, node := range f.nodes {
		n := api.Node{Name: node.Name, Pods: pods[node.Name]}
		for _, c := range node.Status.Conditions {
			n.Ready = n.Ready || c.Type == core.NodeReady && c.Status == core.ConditionTrue
		}
		if report := h.Objects.Reports[node.Name]; report != nil {
			n.Agent = report.Version
		}
		if f.southbound != nil {
			n.Chassis = new(f.southbound.chassis[node.Name])
		}
		switch {
		case !n.Ready:
			n.Problem = "Kubernetes does not say that it is Ready"
		case h.Objects.Reports[node.Name] == nil:
			n.Problem = "no atoll-agent has reported from it"
		case n.Chassis != nil && !*n.Chassis:
			n.Problem = "no ovn-controller of it is registered in the southbound database"
		}
		if n.Problem != "" {
			problem("Node/"+node.Name, "kubectl describe node "+node.Name, "%s", n.Problem)
		}
		s.Nodes = append(s.Nodes, n)
	}
}

// claimableShown is how many addresses a problem names.
const claimableShown = 5

// addClaimable says which addresses of nodes no range of the infrastructure's has: nodes come later than the ranges, and have
// more addresses than Kubernetes tells of.
func addClaimable(h snapshot.Held, f clusterFacts, problem problemOf) {
	if h.Pools.Claimable == nil {
		return
	}
	found := map[string]bool{}
	add := func(node string, addresses ...netip.Addr) {
		for _, a := range addresses {
			if a.IsGlobalUnicast() && h.Pools.Claimable(a) {
				found[fmt.Sprintf("%s of %s", a, node)] = true
			}
		}
	}
	for _, node := range f.nodes {
		for _, a := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(a.Address); err == nil {
				add(node.Name, parsed.Unmap())
			}
		}
	}
	for name, report := range h.Objects.Reports {
		add(name, slices.Concat(report.Addresses, report.Tunnels)...)
	}
	if len(found) == 0 {
		return
	}
	all := slices.Sorted(maps.Keys(found))
	text := strings.Join(all[:min(len(all), claimableShown)], ", ")
	if more := len(all) - claimableShown; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	problem("AtollConfig/"+atoll.ConfigName,
		"kubectl edit atollconfig "+atoll.ConfigName+
			": name their ranges in nodeCIDRs, or in closedCIDRs where a link is the node's alone, such as docker0",
		"addresses of nodes are in none of its ranges, so that a tenant's Service may have them, and an EndpointSlice lead there: %s", text)
}

func addBehind(s *api.ClusterStatus, h snapshot.Held, f clusterFacts) {
	for _, n := range h.Objects.Networks {
		if status, known := h.Status(n.Name, n.UID); !known || status.Phase != atoll.NetworkReady {
			s.Behind.Networks++
		}
	}
	for _, p := range h.Objects.Pods {
		if h.Attachment(p) == nil {
			s.Behind.Addresses++
		}
	}
	if f.southbound != nil {
		s.Behind.Ports = new(f.southbound.unbound)
	}
}

// sortNodes sorts nodes by their names.
func sortNodes(nodes []core.Node) {
	slices.SortFunc(nodes, func(a, b core.Node) int { return cmp.Compare(a.Name, b.Name) })
}
