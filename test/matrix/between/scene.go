package between

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/test/matrix/random"
)

// Plan is what addresses a Network has.
type Plan struct {
	Name string
	// Subnet are the ranges of its pods, Services those of its Services, which it need not have.
	Subnet, Services []netip.Prefix
	// first is where addresses that pods ask for are counted from.
	first netip.Addr
}

// ranges are all that addresses of a Network are from.
func (p Plan) ranges() []netip.Prefix { return slices.Concat(p.Subnet, p.Services) }

// Plans are four: two that overlap each other, one with addresses for Services, which two Networks of it both have, and one that
// overlaps none.
func Plans() []Plan {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	return []Plan{
		{Name: "both families", Subnet: []netip.Prefix{p("10.20.0.0/24"), p("fd00:20::/64")}, first: a("10.20.0.16")},
		{Name: "a part of the first", Subnet: []netip.Prefix{p("10.20.0.0/25")}, first: a("10.20.0.16")},
		{Name: "with Services", Subnet: []netip.Prefix{p("10.21.0.0/24")}, Services: []netip.Prefix{p("10.29.0.0/24")}, first: a("10.21.0.16")},
		{Name: "like none", Subnet: []netip.Prefix{p("10.22.0.0/24")}, first: a("10.22.0.16")},
	}
}

// What a scene has.
const (
	networks = 8
	pods     = 32
	policies = 6
	// addresses is how many different ones pods ask for: so few that Networks of one plan share many.
	addresses = 6
)

// Peer is an entry of what a Network says of itself: whom it is compatible with, and in which mode.
type Peer struct {
	Network, Tenant string
	All, Routed     bool
	// Addresses: pods are dialled by their own addresses, too, where no routers are joined.
	Addresses bool
}

// String is the entry for people.
func (p Peer) String() string {
	text := p.Network + "*" + p.Tenant
	switch {
	case p.All:
		text = "*"
	case p.Tenant == "":
		text = p.Network
	}
	if p.Routed {
		text += " Routed"
	}
	if p.Addresses {
		text += " addresses"
	}
	return text
}

// Network is one of a scene's. Its namespace has its name, and a Service web for the pods with the label app=web.
type Network struct {
	Name, Tenant   string
	Plan           Plan
	CompatibleWith []Peer
	// Uses are Networks of other tenants, and UsesAddressesOf those that it uses by their pods' own addresses, too.
	Uses, UsesAddressesOf []string
	// UsesServiceCIDRs are the ranges in which it dials Services of others by addresses of these.
	UsesServiceCIDRs map[string][]netip.Prefix
}

// String is the Network for the report of a failure.
func (n Network) String() string {
	return fmt.Sprintf("%s of %q (%s): compatible with %v, uses %v, addresses of %v, Services in %v", n.Name, n.Tenant, n.Plan.Name,
		n.CompatibleWith, n.Uses, n.UsesAddressesOf, n.UsesServiceCIDRs)
}

// Pod is one of a scene's.
type Pod struct {
	random.Pod
	// App is its label app.
	App string
}

// Guest reports whether the pod is in another Network than its namespace.
func (p Pod) Guest() bool { return p.Namespace != p.Network }

// Scene is what a seed gives.
type Scene struct {
	Networks []Network
	Pods     []Pod
	Policies []Policy
}

// Draw draws a scene: each plan at least once, tenants of which two have several Networks, edges of both modes, and pods on any
// node. Two pods of each Network are in the namespace of its name, one of them behind its Service; of the others some are guests
// of another Network of their tenant.
func Draw(seed uint64, nodes []string) Scene {
	r := rand.New(rand.NewPCG(seed, 1))
	var s Scene
	plans := Plans()
	tenants := []string{"between-a", "between-a", "between-a", "between-b", "between-b", "between-b", "", ""}
	order := r.Perm(networks)
	for i, tenant := range tenants {
		plan := plans[order[i]%len(plans)]
		if order[i] >= len(plans) {
			plan = plans[r.IntN(len(plans))]
		}
		s.Networks = append(s.Networks, Network{Name: fmt.Sprintf("between-%d", i), Tenant: tenant, Plan: plan})
	}
	for i := range s.Networks {
		for range 1 + r.IntN(3) {
			s.add(r, i)
		}
	}
	s.use(r)
	s.take(rand.New(rand.NewPCG(seed, 4)))
	asked := map[string][]netip.Addr{}
	for i := range pods {
		n := s.Networks[i%networks]
		if i >= 2*networks {
			n = s.Networks[r.IntN(networks)]
		}
		p := Pod{Pod: random.Pod{Namespace: n.Name, Name: fmt.Sprintf("p%02d", i), Network: n.Name, Node: nodes[r.IntN(len(nodes))]}, App: "web"}
		if i >= networks && r.IntN(2) == 0 {
			p.App = "db"
		}
		if i >= 2*networks && n.Tenant != "" && r.IntN(2) == 0 {
			others := slices.DeleteFunc(slices.Clone(s.Networks), func(o Network) bool { return o.Tenant != n.Tenant || o.Name == n.Name })
			p.Namespace = others[r.IntN(len(others))].Name
		}
		ask := random.Nth(n.Plan.first, r.IntN(addresses))
		if i < networks {
			ask = n.Plan.first // one that all of a plan have
		}
		if (i < networks || r.IntN(2) == 0) && !slices.Contains(asked[n.Name], ask) {
			p.Asks = ask
			asked[n.Name] = append(asked[n.Name], ask)
		}
		s.Pods = append(s.Pods, p)
	}
	for i := range policies {
		s.Policies = append(s.Policies, drawPolicy(r, i, s.Networks))
	}
	return s
}

// add has a Network say one more thing of itself.
func (s Scene) add(r *rand.Rand, i int) {
	n := &s.Networks[i]
	p := Peer{Routed: r.IntN(9) < 5, Addresses: r.IntN(2) == 0}
	switch kind := r.IntN(10); {
	case kind == 0 && n.Tenant != "": // without a tenant it would mean Networks that are no part of the scene
		p.All = true
	case kind < 3:
		p.Tenant = s.Networks[r.IntN(networks-2)].Tenant
	default:
		p.Network = s.Networks[(i+1+r.IntN(networks-1))%networks].Name
	}
	if !slices.Contains(n.CompatibleWith, p) {
		n.CompatibleWith = append(n.CompatibleWith, p)
	}
}

// use has Networks use most of those that other tenants' are, whether these are compatible with them or not.
func (s Scene) use(r *rand.Rand) {
	for i := range s.Networks {
		n := &s.Networks[i]
		n.Uses, n.UsesAddressesOf = nil, nil
		for _, other := range s.Networks {
			if other.Tenant == n.Tenant {
				continue
			}
			// What it uses by addresses it need not say that it uses.
			how := r.IntN(6)
			if how > 1 && how < 5 {
				n.Uses = append(n.Uses, other.Name)
			}
			if how > 3 {
				n.UsesAddressesOf = append(n.UsesAddressesOf, other.Name)
			}
		}
	}
}

// take has Networks name ranges of most of those that they use: those that these have, larger ones, or such as they do not have.
func (s Scene) take(r *rand.Rand) {
	for i := range s.Networks {
		n := &s.Networks[i]
		n.UsesServiceCIDRs = map[string][]netip.Prefix{}
		for _, other := range slices.Concat(n.Uses, n.UsesAddressesOf) {
			if how := r.IntN(4); how > 0 {
				n.UsesServiceCIDRs[other] = []netip.Prefix{netip.MustParsePrefix([]string{"10.29.0.0/24", "10.28.0.0/15", "10.28.0.0/16"}[how-1])}
			}
		}
	}
}

// Change is another scene of the same pods: a third of what Networks say of themselves goes, is turned round or has the other
// mode, and as much comes anew.
func (s Scene) Change(seed uint64) Scene {
	r := rand.New(rand.NewPCG(seed, 2))
	out := s
	out.Networks = slices.Clone(s.Networks)
	for i := range out.Networks {
		out.Networks[i].CompatibleWith = nil
	}
	for i, n := range s.Networks {
		for _, p := range n.CompatibleWith {
			to := i
			switch r.IntN(9) {
			case 0:
				continue
			case 1:
				if at := slices.IndexFunc(s.Networks, func(o Network) bool { return o.Name == p.Network }); at >= 0 {
					to, p.Network = at, n.Name
				}
			case 2:
				p.Routed = !p.Routed
			case 3:
				p.Addresses = !p.Addresses
			}
			if said := &out.Networks[to].CompatibleWith; !slices.Contains(*said, p) {
				*said = append(*said, p)
			}
		}
	}
	for i := range out.Networks {
		if r.IntN(4) == 0 {
			out.add(r, i)
		}
	}
	out.use(r)
	out.take(rand.New(rand.NewPCG(seed, 5)))
	return out
}
