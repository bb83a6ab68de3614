package compatible

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Settings are what of the cluster decides who can reach whom.
type Settings struct {
	// Faces are the ranges of the addresses that Kubernetes knows pods by.
	Faces []netip.Prefix
	// DefaultSubnet is what a Network has that lists no subnet.
	DefaultSubnet netip.Prefix
	// MaxJoined is how many Networks may be joined, directly and by others; 0: MaxJoined of this package.
	MaxJoined int
	// Default is the name of the cluster's default Network, whose pods have no faces, whatever its type.
	Default string
	// Taken are the ranges whose addresses mean the same to pods of all Networks: the cluster's Services, its Gateways, its infrastructure.
	// No provider of another tenant takes any of them. Of the same tenant's they decide about what is dialled with mode ByFace
	// (Addressed, Ranged).
	Taken []netip.Prefix
}

// Networks are all Networks, and who of them reaches whom. One goroutine uses them.
type Networks struct {
	settings Settings
	known    map[string]*model.Network
	// ranges are all that addresses of each are from, and extents have them, too, to compare them with those of others.
	ranges  map[string][]netip.Prefix
	extents map[string]*extent
	// tenants are the Networks of each tenant.
	tenants index
	// naming are those that are compatible with a Network by its name, admitting those that are with a whole tenant, and open those that
	// are with all, by their own tenant.
	naming, admitting, open index
	// using are those that list a Network in their uses, in their usesAddressesOf, or in their usesServiceCIDRs.
	using index
	// flats are the flat Networks, and kept what any have addresses of that they do not list (Keep).
	flats       map[string]struct{}
	kept        map[string][]netip.Prefix
	keptExtents map[string]*extent
	// common is what everybodys returned last; nil: something has changed.
	common []place
	// judged are the Networks that a consumer asks for or is offered, as if all of them were known by faces. asking are the pairs that
	// ask to be joined, each with how many directions do, and joints are those that are.
	judged map[string][]peer
	asking map[pair]int
	joints joints
	// views are what the claims of a consumer came to. peers are those of judged as they are, and consumers those that reach a provider.
	views     map[string]*view
	peers     map[string][]peer
	consumers index
	// work counts how often a range was compared with another one, an extent with another one, and a Network judged for another one:
	// what a change costs.
	work int
}

// peer is a provider as its consumer sees it.
type peer struct {
	network string
	mode    model.CompatibilityMode
	// addresses: the consumer's pods dial its pods by their own addresses, too; of one that is judged they do if no address conflicts.
	addresses bool
	// services: so they do with its Services, by addresses of its own ranges.
	services bool
	state    model.CompatibilityState
	// problem is what the consumer's owner is told, toProvider what the provider's is.
	problem, toProvider model.Problem
}

type index map[string]map[string]struct{}

func (i index) add(key, value string) {
	if i[key] == nil {
		i[key] = map[string]struct{}{}
	}
	i[key][value] = struct{}{}
}

func (i index) drop(key, value string) {
	delete(i[key], value)
	if len(i[key]) == 0 {
		delete(i, key)
	}
}

// New makes an index without Networks.
func New(settings Settings) *Networks {
	settings.MaxJoined = cmp.Or(settings.MaxJoined, MaxJoined)
	return &Networks{
		settings: settings, known: map[string]*model.Network{}, ranges: map[string][]netip.Prefix{}, extents: map[string]*extent{},
		tenants: index{}, naming: index{}, admitting: index{}, open: index{}, using: index{},
		flats: map[string]struct{}{}, kept: map[string][]netip.Prefix{}, keptExtents: map[string]*extent{},
		judged: map[string][]peer{}, asking: map[pair]int{}, joints: joints{with: index{}},
		views: map[string]*view{}, peers: map[string][]peer{}, consumers: index{},
	}
}

// Set takes a Network as it is now; nil: it has gone. It returns the Networks about which something else is true than before, sorted.
func (n *Networks) Set(name string, m *model.Network) (changed []string) {
	touched, before := map[string]struct{}{name: {}}, n.ranges[name]
	if old := n.known[name]; old != nil {
		maps.Copy(touched, n.consumersAsked(old))
		n.enter(old, index.drop)
		delete(n.known, name)
		delete(n.ranges, name)
	}
	if m != nil {
		n.known[name], n.ranges[name] = m, n.settings.ranges(m)
		n.enter(m, index.add)
		maps.Copy(touched, n.consumersAsked(m))
	}
	told := map[string]struct{}{name: {}}
	changes := n.extend(name, m)
	rejoin := false
	if n.flatChanged(name, before, touched) {
		changes, rejoin = true, len(n.asking) > 0
	}
	for consumer := range touched {
		others, asks := n.judge(consumer, name)
		changes, rejoin = changes || others, rejoin || asks
	}
	if !changes {
		// What it says of everything else is nobody's matter here.
		return []string{name}
	}
	if rejoin || n.asks(touched) {
		maps.Copy(touched, n.rejoin(told))
	}
	for consumer := range touched {
		n.settle(consumer, told)
	}
	return slices.Sorted(maps.Keys(told))
}

// extend gives a Network the extent that it has now, and reports whether that is another one than before.
func (n *Networks) extend(name string, m *model.Network) (changes bool) {
	before := n.extents[name]
	var now *extent
	if m != nil {
		now = n.settings.extent(m)
	}
	if before.same(now) {
		return false
	}
	before.forget()
	if n.extents[name] = now; now == nil {
		delete(n.extents, name)
	}
	return true
}

// asks reports whether any of some Networks asks to be joined, or is asked.
func (n *Networks) asks(some map[string]struct{}) bool {
	for p := range n.asking {
		if _, a := some[p.a]; a {
			return true
		}
		if _, b := some[p.b]; b {
			return true
		}
	}
	return false
}

// rejoin decides anew which Networks are joined, and returns those to which this may be news. It names in told those that are joined to
// more or fewer than before, if only by others.
func (n *Networks) rejoin(told map[string]struct{}) (touched map[string]struct{}) {
	before := n.joints
	n.joints = n.join()
	touched = map[string]struct{}{}
	for _, j := range []joints{before, n.joints} {
		for name, size := range j.sizes {
			touched[name] = struct{}{}
			if before.sizes[name] != size || n.joints.sizes[name] != size {
				told[name] = struct{}{}
			}
		}
		for p := range j.refused {
			touched[p.a], touched[p.b] = struct{}{}, struct{}{}
		}
	}
	return touched
}

// enter enters what a Network says into the indexes, or takes it out.
func (n *Networks) enter(m *model.Network, do func(i index, key, value string)) {
	do(n.tenants, m.Tenant, m.Name)
	for _, p := range m.CompatibleWith {
		switch {
		case p.All:
			do(n.open, m.Tenant, m.Name)
		case p.Tenant != "":
			do(n.admitting, p.Tenant, m.Name)
		default:
			do(n.naming, p.Network, m.Name)
		}
	}
	for _, provider := range used(m) {
		do(n.using, provider, m.Name)
	}
}

// consumersAsked are the Networks that one offers itself to, or that ask for it.
func (n *Networks) consumersAsked(m *model.Network) map[string]struct{} {
	out := maps.Clone(n.using[m.Name])
	if out == nil {
		out = map[string]struct{}{}
	}
	for _, p := range m.CompatibleWith {
		switch {
		case p.All:
			maps.Copy(out, n.tenants[m.Tenant])
		case p.Tenant != "":
			maps.Copy(out, n.tenants[p.Tenant])
		default:
			out[p.Network] = struct{}{}
		}
	}
	return out
}

// settled are those that a consumer's pods reach, and those that they do not: what asks to be joined and cannot be is refused, and what is
// joined is so in both directions.
func (n *Networks) settled(consumer string) []peer {
	out := slices.Clone(n.judged[consumer])
	for i, p := range out {
		if p.state != model.CompatibilityActive {
			continue
		}
		which := pairOf(consumer, p.network)
		refused, is := n.joints.refused[which]
		switch {
		case n.JoinedTo(consumer, p.network):
			out[i].mode, out[i].addresses, out[i].problem, out[i].toProvider = model.Routed, true, model.Problem{}, model.Problem{}
			out[i].services = len(n.known[p.network].ServiceCIDRs) > 0
		case p.mode == model.Routed && is:
			out[i].state, out[i].addresses, out[i].services = model.CompatibilityRefused, false, false
			out[i].problem, out[i].toProvider = refused.to(which, consumer), refused.to(which, p.network)
		}
	}
	n.dial(consumer, out)
	return out
}

// settle decides anew whom a Network's pods reach, and names in told whoever that is news to.
func (n *Networks) settle(consumer string, told map[string]struct{}) {
	before, now := n.peers[consumer], n.settled(consumer)
	if slices.Equal(before, now) {
		return
	}
	for _, p := range before {
		n.consumers.drop(p.network, consumer)
	}
	for _, p := range now {
		if p.state == model.CompatibilityActive {
			n.consumers.add(p.network, consumer)
		}
	}
	told[consumer] = struct{}{}
	was := make(map[string]peer, len(before))
	for _, p := range before {
		was[p.network] = p
	}
	for _, p := range now {
		if old, had := was[p.network]; !had || old != p {
			told[p.network] = struct{}{}
		}
		delete(was, p.network)
	}
	for network := range was {
		told[network] = struct{}{}
	}
	if n.peers[consumer] = now; len(now) == 0 {
		delete(n.peers, consumer)
	}
}

// Providers are the Networks whose pods a Network's pods reach, sorted.
func (n *Networks) Providers(consumer string) []string {
	var out []string
	for _, p := range n.peers[consumer] {
		if p.state == model.CompatibilityActive {
			out = append(out, p.network)
		}
	}
	slices.Sort(out)
	return out
}

// Consumers are the Networks whose pods reach a Network's, sorted.
func (n *Networks) Consumers(provider string) []string {
	if len(n.consumers[provider]) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(n.consumers[provider]))
}

// Reaches reports whether a consumer's pods reach a provider's.
func (n *Networks) Reaches(consumer, provider string) bool {
	_, yes := n.consumers[provider][consumer]
	return yes
}
