package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
)

// add gives the cluster a Network with pods on two nodes, each at the address that is named: SUBNET/NAME=ADDRESS.
func (c *cluster) add(name, tenant string, pods ...string) {
	n, t, i := api.Network{}, api.Topology{}, api.IPAM{}
	n.Name, t.Name, i.Name = name, name, name
	n.Status = api.NetworkStatus{
		Type: "vpc", Tenant: tenant, Phase: "Ready", Reason: "Ready", Pods: int64(len(pods)), Isolation: "hard",
		Detail: &api.NetworkDetail{Namespaces: []string{name}},
	}
	t.Status = api.TopologyStatus{
		Type: "vpc", Tenant: tenant, Phase: "Ready", Router: name, Pods: int64(len(pods)), Nodes: []api.NodePods{{Node: "n1", Pods: len(pods)}},
	}
	i.Status = api.IPAMStatus{Tenant: tenant}
	for s, subnet := range []string{"front", "back"} {
		cidr, gateway := fmt.Sprintf("10.0.%d.0/24", s), fmt.Sprintf("10.0.%d.1", s)
		here := int64(len(slices.DeleteFunc(slices.Clone(pods), func(p string) bool { return !strings.HasPrefix(p, subnet+"/") })))
		n.Status.Ranges = append(n.Status.Ranges, api.Range{Subnet: subnet, CIDR: cidr, Gateway: gateway, Used: here, Free: 252 - here})
		t.Status.Subnets = append(t.Status.Subnets, api.TopologySubnet{
			Name: subnet, Switch: name + "/" + subnet, CIDRs: []string{cidr}, Gateways: []string{gateway}, Pods: here,
		})
		i.Status.Pools = append(i.Status.Pools, api.AddressPool{
			Use: api.UseSubnet, Name: subnet, CIDR: cidr, Gateway: gateway, Size: 256, Used: here, Free: 252 - here,
		})
		i.Status.Holders = append(i.Status.Holders, api.Holder{Address: gateway, Use: api.UseSubnet, Kind: "Router", Name: name})
	}
	for k, text := range pods {
		subnet, rest, _ := strings.Cut(text, "/")
		pod, address, _ := strings.Cut(rest, "=")
		p := api.Pod{Status: api.PodStatus{
			Network: name, Subnet: subnet, Addresses: []string{address}, Faces: []string{fmt.Sprintf("100.64.%d.%d", len(c.networks), k)},
			Node: fmt.Sprintf("n%d", k%2+1), MAC: "0a:58:0a:00:00:02",
			Verdict: "nothing is missing", Layers: []api.Layer{
				{Name: "pod", State: api.LayerOK, What: "Running"}, {Name: "address", State: api.LayerOK, What: address + " of subnet " + subnet},
			},
		}}
		p.Namespace, p.Name = name, pod
		c.pods = append(c.pods, p)
		i.Status.Holders = append(i.Status.Holders, api.Holder{
			Address: address, Use: api.UseSubnet, Kind: "Pod", Name: name + "/" + pod, Node: p.Status.Node,
		})
	}
	c.networks, c.topologies, c.ipams = append(c.networks, n), append(c.topologies, t), append(c.ipams, i)
}

// peer has pods of one Network reach those of another.
func (c *cluster) peer(user, server, mode, state string) {
	for _, side := range []struct{ name, other, direction string }{{user, server, "Uses"}, {server, user, "Serves"}} {
		p := api.Peer{Network: side.other, Direction: side.direction, Mode: mode, State: state}
		if state != "Active" {
			p.Message = "10.0.0.0/24 of Network " + side.other + " overlaps 10.0.0.0/24"
		}
		for k := range c.networks {
			if c.networks[k].Name == side.name {
				c.networks[k].Status.Peers = append(c.networks[k].Status.Peers, p)
				c.topologies[k].Status.Peers = c.networks[k].Status.Peers
			}
		}
	}
}

// sample is a cluster of six Networks of two tenants and of the cluster's own: of the same addresses, three of them with a pod at
// 10.0.0.10.
func sample(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{}
	c.add("red", "", "front/web-0=10.0.0.2", "front/web-1=10.0.0.5", "front/same=10.0.0.10", "back/db-0=10.0.1.2", "front/friend=10.0.0.4",
		"front/locked=10.0.0.3")
	c.add("blue", "", "front/web-0=10.0.0.2", "front/same=10.0.0.10", "back/db-0=10.0.1.2")
	c.add("green", "", "front/client=10.0.0.2")
	c.add("acme-web", "acme", "front/shop=10.0.0.2", "front/same=10.0.0.10")
	c.add("acme-ci", "acme", "front/runner=10.0.0.2")
	c.add("umbrella", "umbrella", "front/app=10.0.0.2")
	c.peer("blue", "red", "ByFace", "Active")
	c.peer("acme-ci", "acme-web", "ByFace", "Active")
	c.peer("acme-web", "acme-ci", "ByFace", "Active")
	c.peer("green", "red", "Routed", "Refused")
	c.topologies[0].Status.Gateways = []api.Addressed{{Name: "red/edge", Addresses: []string{"10.9.0.11"}}}
	c.topologies[0].Status.ServiceCIDRs = []string{"10.9.0.0/24"}
	d := c.networks[0].Status.Detail
	d.Policies, d.Gateways, d.Services = []string{"NetworkPolicy/red/lock"}, []string{"red/edge"}, []api.Addressed{
		{Name: "red/db", Addresses: []string{"10.9.0.10"}},
	}
	// What is stopped, and what is not, are the command line's own examples.
	stopped, reached := golden[explain.Explanation](t, "explain-policy"), golden[explain.Explanation](t, "explain-reached")
	c.explain = func(q api.ExplanationSpec) (explain.Explanation, error) {
		if q.From == stopped.From && q.To == stopped.To {
			return stopped, nil
		}
		out := reached
		out.From, out.To, out.Protocol, out.Port = q.From, q.To, q.Protocol, q.Port
		return out, nil
	}
	return c
}

// thousand is a cluster of a thousand Networks of twenty tenants: most have no peers, some those of their tenant, and those of
// one tenant all have the same.
func thousand() *cluster {
	c := &cluster{}
	name := func(i int) string { return fmt.Sprintf("network-%03d", i) }
	for i := range 1000 {
		c.add(name(i), fmt.Sprintf("tenant-%02d", i%20), "front/web-0=10.0.0.2", "front/web-1=10.0.0.3")
	}
	for i := range 1000 {
		switch {
		case i%20 == 7:
			c.peer(name(i), name(0), "ByFace", "Active")
		case i%20 == 3 && i < 100:
			c.peer(name(i), name((i+20)%100), "ByFace", "Active")
		}
	}
	return c
}
