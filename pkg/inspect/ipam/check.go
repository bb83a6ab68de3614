package ipam

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// notAsked says why ports were not looked at.
const notAsked = "the northbound database was not asked: leaks there, and ports that differ, are not known"

// addressCheck looks for what is wrong with addresses.
type addressCheck struct {
	snapshot.Held
	all   Holdings
	found map[string][]api.IPAMFinding
}

// checks are what is wrong with the addresses of each Network, and of the cluster as a whole, sorted by their names; the cluster
// is the last. Rows are nil when problem says why they are not known.
func checks(h snapshot.Held, rows snapshot.Northbound, problem string) []api.IPAMCheck {
	c := addressCheck{h, HoldingsOf(h), map[string][]api.IPAMFinding{}}
	checks := []func(){c.checkRanges, c.checkDuplicates, c.checkFaces, c.checkCounts, c.checkGone, c.checkOverlaps}
	if rows != nil {
		checks = append(checks, func() { c.checkPorts(rows) }, func() { c.checkBalancers(rows) })
	}
	for _, check := range checks {
		if !h.Over() {
			check()
		}
	}
	names := append(slices.Sorted(maps.Keys(h.Objects.Networks)), api.ClusterPools)
	out := make([]api.IPAMCheck, 0, len(names))
	for _, name := range names {
		var one api.IPAMCheck
		one.APIVersion, one.Kind, one.Name = api.GroupVersion().String(), "IPAMCheck", name
		if n := h.Objects.Networks[name]; n != nil {
			one.Status.Tenant = n.Tenant
		}
		one.Status.Addresses, one.Status.Problem = int64(len(c.all[name])), problem
		one.Status.Findings = append([]api.IPAMFinding{}, c.found[name]...)
		slices.SortFunc(one.Status.Findings, func(a, b api.IPAMFinding) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Object, b.Object),
				cmp.Compare(a.Message, b.Message))
		})
		one.Status.Findings = slices.Compact(one.Status.Findings)
		out = append(out, one)
	}
	return out
}

// find notes what is wrong in a Network. One that is not there is the cluster's to mend.
func (c *addressCheck) find(network string, kind api.FindingKind, address, object, next, message string, args ...any) {
	if c.Objects.Networks[network] == nil {
		network = api.ClusterPools
	}
	c.found[network] = append(c.found[network], api.IPAMFinding{
		Kind: kind, Address: address, Object: object, Message: fmt.Sprintf(message, args...), Next: next,
	})
}

// object names a holder as findings do.
func object(o nb.Owner) string { return string(o.Kind) + "/" + ObjectName(o) }

// anew is how a holder gets another address.
func anew(o nb.Owner) string {
	switch o.Kind {
	case nb.KindPod:
		return fmt.Sprintf("make the pod anew: kubectl delete pod -n %s %s", o.Namespace, o.Name)
	case nb.KindService:
		return fmt.Sprintf("take its addresses off, and it gets others: kubectl annotate service -n %s %s %s-", o.Namespace, o.Name,
			model.AnnotationServiceAddresses)
	case nb.KindNode:
		return fmt.Sprintf("take its addresses off, and it gets others: kubectl annotate node %s %s-", o.Name, model.AnnotationNode)
	}
	if isGateway(o) {
		return fmt.Sprintf("make the Gateway anew: kubectl get gateway -n %s %s -o yaml", o.Namespace, o.Name)
	}
	return "give the subnet another gatewayIPs"
}

// checkRanges finds addresses of Networks that are in none of their ranges.
func (c *addressCheck) checkRanges() {
	for name, list := range c.all {
		n := c.Objects.Networks[name]
		if n == nil {
			continue
		}
		shown, known := c.Status(n.Name, n.UID)
		if !known {
			continue
		}
		services := slices.Clone(c.Pools.Gateways)
		for _, r := range shown.ServiceCIDRs {
			if p, err := netip.ParsePrefix(r.CIDR); err == nil {
				services = append(services, p)
			}
		}
		for _, a := range list {
			what, ranges := "range of its subnets", Prefixes(shown.Subnets)
			switch a.use {
			case api.UseServices, api.UseGateways:
				what, ranges = "range of its virtual addresses", services
				if a.use == api.UseGateways && c.Pools.Gateways == nil {
					continue // Who asks does not know the cluster's.
				}
			default:
				if a.subnet != "" {
					what, ranges = "range of its subnet "+a.subnet, nil
					for _, r := range shown.Subnets {
						if p, err := netip.ParsePrefix(r.CIDR); err == nil && r.Name == a.subnet {
							ranges = append(ranges, p)
						}
					}
				}
			}
			if !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a.Address) }) {
				c.find(name, api.FindingOutOfRange, a.Address.String(), object(a.Owner), anew(a.Owner)+"; or give Network "+name+" the range back",
					"%s has %s, and Network %q has no %s that holds it: %s", ledger.Describe(a.Owner), a.Address, name, what,
					listOr(ranges, "there is none"))
			}
		}
	}
}

func listOr[T fmt.Stringer](list []T, none string) string {
	if len(list) == 0 {
		return none
	}
	return ledger.List(list)
}

// checkDuplicates finds addresses that several have in one Network.
func (c *addressCheck) checkDuplicates() {
	for name, list := range c.all {
		for at := 0; at < len(list); {
			end := at + 1
			for end < len(list) && list[end].Address == list[at].Address {
				end++
			}
			if same := list[at:end]; len(same) > 1 {
				c.duplicate(name, same)
			}
			at = end
		}
	}
}

// duplicate says that several have one address, the oldest first: the others are to give way. Of a face each Network is told for itself.
func (c *addressCheck) duplicate(name string, same []Holding) {
	// The router stays, whoever came first.
	same = slices.Clone(same)
	slices.SortStableFunc(same, func(a, b Holding) int {
		return cmp.Compare(min(1, len(strings.TrimPrefix(string(a.Owner.Kind), kindRouter))),
			min(1, len(strings.TrimPrefix(string(b.Owner.Kind), kindRouter))))
	})
	if name == api.ClusterPools {
		for _, a := range same {
			key, _ := ledger.PodOf(a.Owner)
			network := ""
			if held := c.Attachment(c.Objects.Pods[key]); held != nil {
				network = held.Network
			}
			c.find(network, api.FindingDuplicate, a.Address.String(), object(a.Owner), anew(a.Owner), "%s has the face %s, and so has another pod",
				ledger.Describe(a.Owner), a.Address)
		}
		return
	}
	first := same[0]
	for _, a := range same[1:] {
		if a.Owner == first.Owner {
			continue
		}
		c.find(name, api.FindingDuplicate, a.Address.String(), object(a.Owner), anew(a.Owner),
			"%s has %s, and so has %s", ledger.Describe(a.Owner), a.Address, ledger.Describe(first.Owner))
	}
}

// checkFaces finds faces that are not of their node's blocks, and blocks that are not of the cluster's ranges, or of two nodes.
func (c *addressCheck) checkFaces() {
	for _, a := range c.all[api.ClusterPools] {
		n := c.Objects.Nodes[a.node]
		if n == nil || n.Assigned == nil {
			continue
		}
		if !slices.ContainsFunc(n.Assigned.Faces, func(p netip.Prefix) bool { return p.Contains(a.Address) }) {
			network := ""
			if key, is := ledger.PodOf(a.Owner); is {
				network = c.Attachment(c.Objects.Pods[key]).Network
			}
			c.find(network, api.FindingOutOfRange, a.Address.String(), object(a.Owner), anew(a.Owner),
				"%s has the face %s, which is in no block of node %s: %s",
				ledger.Describe(a.Owner), a.Address, a.node, listOr(n.Assigned.Faces, "it has none"))
		}
	}
	owners := map[netip.Prefix]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Objects.Nodes)) {
		n := c.Objects.Nodes[name]
		if n.Assigned == nil {
			continue
		}
		for _, block := range n.Assigned.Faces {
			if c.Pools.Faces != nil && !slices.ContainsFunc(c.Pools.Faces, block.Overlaps) {
				c.find("", api.FindingOutOfRange, block.String(), "Node/"+name, anew(nb.NodeOwner(name)),
					"node %s has the block %s, and faces are of %s", name, block, ledger.List(c.Pools.Faces))
			}
			if other, taken := owners[block]; taken {
				c.find("", api.FindingDuplicate, block.String(), "Node/"+name, anew(nb.NodeOwner(name)), "nodes %s and %s have the same block %s",
					other, name, block)
			}
			owners[block] = name
		}
	}
}

// checkCounts finds ranges of which a Network's status counts more addresses than anybody has: the controller holds them for nobody.
func (c *addressCheck) checkCounts() {
	if c.Unread["pods"] || c.Unread["nodes"] || c.Unread["services"] {
		return
	}
	for name, n := range c.Objects.Networks {
		shown, _ := c.Status(name, n.UID)
		count := func(what, text string, used int64) {
			cidr, err := netip.ParsePrefix(text)
			if err != nil {
				return
			}
			have := int64(0)
			for _, a := range c.all[name] {
				if cidr.Contains(a.Address) && a.Owner.Kind != kindRouter {
					have++
				}
			}
			if used > have {
				c.find(name, api.FindingLeak, text, "Network/"+name,
					"a controller that begins anew counts anew: kubectl -n atoll-system delete pod, of the atoll-controller that "+
						"leads (atoll status names it)",
					"its status counts %s of %s%s as used, and %d are held", model.Count(int(used), "address"), text, what, have)
			}
		}
		for _, r := range shown.Subnets {
			count(" (subnet "+r.Name+")", r.CIDR, r.Used)
		}
		for _, r := range shown.ServiceCIDRs {
			if !c.Unread["gateways"] {
				count(" (Services)", r.CIDR, r.Used)
			}
		}
	}
}

// checkGone finds addresses that are written on somebody for a Network that is not there any more, or is another one of that name.
func (c *addressCheck) checkGone() {
	if c.Unread["networks"] {
		return
	}
	gone := func(o nb.Owner, network, uid string, addresses []netip.Addr) {
		n := c.Objects.Networks[network]
		if network == "" || n != nil && n.UID == uid {
			return
		}
		what := "which does not exist"
		if n != nil {
			what = "and there is another one of that name now"
		}
		c.find(network, api.FindingLeak, ledger.List(addresses), object(o), anew(o), "%s has %s of a former Network %q, %s", ledger.Describe(o),
			ledger.List(addresses), network, what)
	}
	for key, p := range c.Objects.Pods {
		for _, a := range p.Assigned {
			gone(ledger.Pod(key), a.Network, a.NetworkUID, addrs(a.Addresses))
		}
	}
	for key, s := range c.Objects.Services {
		if s.Assigned != nil && len(s.Assigned.Addresses) > 0 {
			gone(nb.ServiceOwner(key.Namespace, key.Name), s.Assigned.Network, s.Assigned.NetworkUID, s.Assigned.Addresses)
		}
	}
}

func addrs(prefixes []netip.Prefix) []netip.Addr {
	out := make([]netip.Addr, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, p.Addr())
	}
	return out
}
