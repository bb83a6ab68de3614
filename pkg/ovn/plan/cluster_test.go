package plan_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// cluster is what a history is of: Networks, pods, port groups and policies, few of each, so that they meet often.
type cluster struct {
	graph *graph.Graph
	last  map[nb.Owner]nb.Facts
	// groups that there are, with what their rows say.
	groups   map[int]int
	pods     map[int]podWish
	policies map[int]policyWish
}

// podWish is a pod that wants its port in a Network and in some groups: in those of them that are there it has a place.
type podWish struct {
	network, variant int
	groups           [groupCount]bool
}

// policyWish is a policy that has an ACL in a group while that is there.
type policyWish struct{ group, variant int }

const groupCount = 3

// newCluster makes an empty one. Policies of another namespace name the last group, and that of the pods another one.
func newCluster(g *graph.Graph) *cluster {
	g.Use(groupOwner(groupCount-1), "others", +1)
	g.Use(groupOwner(0), "ns", +1)
	return &cluster{graph: g, last: map[nb.Owner]nb.Facts{}, groups: map[int]int{}, pods: map[int]podWish{}, policies: map[int]policyWish{}}
}

func (c *cluster) set(owner nb.Owner, f nb.Facts) {
	c.last[owner] = f
	c.graph.Set(owner, f)
}

func (c *cluster) remove(owner nb.Owner) {
	delete(c.last, owner)
	c.graph.Delete(owner)
}

// change does one thing.
func (c *cluster) change(t *rapid.T) {
	variant := rapid.IntRange(0, 2).Draw(t, "variant")
	n, p := rapid.IntRange(0, 2).Draw(t, "network"), rapid.IntRange(0, 5).Draw(t, "pod")
	g := rapid.IntRange(0, groupCount-1).Draw(t, "group")
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 0:
		c.set(nb.NetworkOwner(networkName(n)), network(n, variant))
	case 1:
		c.remove(nb.NetworkOwner(networkName(n)))
	case 2, 3:
		wish := podWish{network: n, variant: variant}
		for i := range wish.groups {
			wish.groups[i] = rapid.Bool().Draw(t, "in a group")
		}
		c.pods[p] = wish
		c.givePlaces(p)
	case 4:
		delete(c.pods, p)
		c.remove(podOwner(p))
	case 5:
		c.groups[g] = variant
		c.set(groupOwner(g), group(g, variant))
		c.regroup(g)
	case 6:
		delete(c.groups, g)
		c.remove(groupOwner(g))
		c.regroup(g)
	case 7:
		c.policies[p] = policyWish{g, variant}
		c.writePolicy(p)
	case 8:
		delete(c.policies, p)
		c.remove(policyOwner(p))
	}
}

// regroup writes anew who wants to have to do with a group.
func (c *cluster) regroup(g int) {
	for _, p := range slices.Sorted(maps.Keys(c.pods)) {
		if c.pods[p].groups[g] {
			c.givePlaces(p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.policies)) {
		if c.policies[p].group == g {
			c.writePolicy(p)
		}
	}
}

func (c *cluster) givePlaces(p int) {
	wish := c.pods[p]
	f := pod(p, wish.network, wish.variant)
	for g, wanted := range wish.groups {
		if _, there := c.groups[g]; wanted && there {
			f.Members = append(f.Members, nb.Member{Set: nb.Set{Row: groupRef(g), Column: nb.ColumnPorts}, Value: f.Rows[0].ID()})
		}
	}
	c.set(podOwner(p), f)
}

func (c *cluster) writePolicy(p int) {
	wish := c.policies[p]
	if _, there := c.groups[wish.group]; !there {
		c.remove(policyOwner(p))
		return
	}
	c.set(policyOwner(p), rule(policyOwner(p), wish.group, wish.variant))
}

// comesWhole checks what must not be without its ports, nor without its groups, for a moment: a port comes with its places
// in all of its groups, and a group with all its ports that are there.
func (w *world) comesWhole(t *rapid.T, u plan.Unit, there plan.Actual) {
	for _, row := range u.Inserts {
		var wanted []nb.Member
		switch row := row.(type) {
		case *nb.LogicalSwitchPort:
			facts, _ := w.Facts(u.Owner)
			wanted = facts.Members
		case *nb.PortGroup:
			set := nb.Set{Row: nb.RefOf(row), Column: nb.ColumnPorts}
			for _, port := range w.Elements(set) {
				if m := (nb.Member{Set: set, Value: port}); there.Has(m.Ref()) {
					wanted = append(wanted, m)
				}
			}
		}
		for _, m := range wanted {
			if w.ForOthers(u.Owner, m.Row) && !there.Has(m.Row) {
				continue
			}
			if !slices.Contains(u.Joins, m) && !there.HasMember(m) {
				t.Fatalf("%s inserts %v without %v in %v", u.Owner, nb.RefOf(row), m.Ref(), m.Set)
			}
		}
	}
}

// tamperPlace takes a port out of a group, or puts a strange one in: one that is wanted somewhere. Others go, and leave the
// group by themselves.
func tamperPlace(t *rapid.T, g *graph.Graph, m *memory, set nb.Set) {
	var ports []string
	for ref := range m.rows {
		if _, wanted := g.Row(ref); wanted && ref.Table == nb.TableLogicalSwitchPort {
			ports = append(ports, ref.UUID)
		}
	}
	if len(ports) == 0 {
		return
	}
	slices.Sort(ports)
	victim := rapid.SampledFrom(ports).Draw(t, "port")
	if m.sets[set] == nil {
		m.sets[set] = map[string]bool{}
	}
	if m.sets[set][victim] {
		delete(m.sets[set], victim)
	} else {
		m.sets[set][victim] = true
	}
	g.TouchMember(nb.Member{Set: set, Value: victim})
}

func networkName(n int) string { return fmt.Sprintf("net%d", n) }

func podOwner(p int) nb.Owner { return nb.PodOwner("ns", fmt.Sprintf("pod%d", p)) }
func policyOwner(p int) nb.Owner {
	return nb.PolicyOwner(nb.KindNetworkPolicy, "ns", fmt.Sprintf("policy%d", p), "net")
}
func groupOwner(g int) nb.Owner { return nb.PortGroupOwner("net", fmt.Sprintf("group%d", g)) }

func groupRef(g int) nb.Ref {
	return nb.Ref{Table: nb.TablePortGroup, UUID: nb.UUID(nb.TablePortGroup, fmt.Sprintf("group%d", g))}
}

// network, pod, group and rule make facts like those of package compile, small enough for many collisions.
func network(n, variant int) nb.Facts {
	id := fmt.Sprintf("net%d", n)
	sw := &nb.LogicalSwitch{
		UUID: nb.UUID(nb.TableLogicalSwitch, id), Name: id, OtherConfig: map[string]string{"v": fmt.Sprint(variant)},
		ExternalIDs: map[string]string{nb.KeyOwner: "Network/" + id},
	}
	lb := &nb.LoadBalancer{UUID: nb.UUID(nb.TableLoadBalancer, id), Name: id, ExternalIDs: map[string]string{nb.KeyOwner: "Network/" + id}}
	return nb.Facts{Rows: []nb.Row{sw, lb}}
}

func pod(p, n, variant int) nb.Facts {
	id := fmt.Sprintf("pod%d", p)
	port := &nb.LogicalSwitchPort{
		UUID: nb.UUID(nb.TableLogicalSwitchPort, id), Name: id, Addresses: []string{fmt.Sprint(variant)},
		ExternalIDs: map[string]string{nb.KeyOwner: "Pod/" + id},
	}
	return nb.Facts{Rows: []nb.Row{port}, Members: []nb.Member{{
		Set: nb.Set{
			Row: nb.Ref{Table: nb.TableLogicalSwitch, UUID: nb.UUID(nb.TableLogicalSwitch, fmt.Sprintf("net%d", n))}, Column: nb.ColumnPorts,
		},
		Value: port.UUID,
	}, {
		Set: nb.Set{
			Row: nb.Ref{Table: nb.TableLoadBalancer, UUID: nb.UUID(nb.TableLoadBalancer, fmt.Sprintf("net%d", n))}, Column: nb.ColumnVips,
		},
		Value: nb.Pair(id, fmt.Sprint(variant)),
	}}}
}

// group has an ACL of its own, as the group of isolated pods has.
func group(g, variant int) nb.Facts {
	row := &nb.PortGroup{
		UUID: groupRef(g).UUID, Name: fmt.Sprintf("group%d", g), ExternalIDs: map[string]string{
			nb.KeyOwner: groupOwner(g).String(), "v": fmt.Sprint(variant),
		},
	}
	f := rule(groupOwner(g), g, variant)
	f.Rows = append([]nb.Row{row}, f.Rows...)
	return f
}

func rule(owner nb.Owner, g, variant int) nb.Facts {
	acl := &nb.ACL{
		UUID: nb.UUID(nb.TableACL, owner.String()), Match: fmt.Sprint(variant), Action: "drop",
		ExternalIDs: map[string]string{nb.KeyOwner: owner.String()},
	}
	return nb.Facts{Rows: []nb.Row{acl}, Members: []nb.Member{{Set: nb.Set{Row: groupRef(g), Column: nb.ColumnACLs}, Value: acl.UUID}}}
}
