package compatible

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
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
	// ranges are all that addresses of each are from.
	ranges map[string][]netip.Prefix
	// tenants are the Networks of each tenant.
	tenants index
	// naming are those that are compatible with a Network by its name, admitting those that are with a whole tenant, and open those that
	// are with all, by their own tenant.
	naming, admitting, open index
	// using are those that list a Network in their uses, in their usesAddressesOf, or in their usesServiceCIDRs.
	using index
	// flats are the flat Networks, and kept what any have addresses of that they do not list (Keep).
	flats map[string]struct{}
	kept  map[string][]netip.Prefix
	// judged are the Networks that a consumer asks for or is offered, as if all of them were known by faces. asking are the pairs that
	// ask to be joined, each with how many directions do, and joints are those that are.
	judged map[string][]peer
	asking map[pair]int
	joints joints
	// peers are those of judged as they are, and consumers those that reach a provider.
	peers     map[string][]peer
	consumers index
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
		settings: settings, known: map[string]*model.Network{}, ranges: map[string][]netip.Prefix{},
		tenants: index{}, naming: index{}, admitting: index{}, open: index{}, using: index{},
		flats: map[string]struct{}{}, kept: map[string][]netip.Prefix{}, judged: map[string][]peer{}, asking: map[pair]int{}, joints: joints{with: index{}},
		peers: map[string][]peer{}, consumers: index{},
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
	rejoin := n.flatChanged(name, before, touched) && len(n.asking) > 0
	for consumer := range touched {
		rejoin = n.judge(consumer) || rejoin
	}
	if rejoin || n.asks(touched) {
		maps.Copy(touched, n.rejoin(told))
	}
	for consumer := range touched {
		n.settle(consumer, told)
	}
	return slices.Sorted(maps.Keys(told))
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

// judge decides anew whom a Network's pods would reach by faces, and reports whether other pairs ask to be joined than before.
func (n *Networks) judge(consumer string) (rejoin bool) {
	before, now := n.judged[consumer], n.peersOf(n.known[consumer])
	if slices.Equal(before, now) {
		return false
	}
	asks := func(p peer) bool { return p.state == model.CompatibilityActive && p.mode == model.Routed }
	for _, p := range before {
		if asks(p) {
			rejoin = true
			if n.asking[pairOf(consumer, p.network)]--; n.asking[pairOf(consumer, p.network)] == 0 {
				delete(n.asking, pairOf(consumer, p.network))
			}
		}
	}
	for _, p := range now {
		if asks(p) {
			rejoin = true
			n.asking[pairOf(consumer, p.network)]++
		}
	}
	if n.judged[consumer] = now; len(now) == 0 {
		delete(n.judged, consumer)
	}
	return rejoin
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

// peersOf are the providers that a Network asks for, or that offer themselves to it, by their names.
func (n *Networks) peersOf(m *model.Network) []peer {
	if m == nil {
		return nil
	}
	names := map[string]struct{}{}
	for _, provider := range used(m) {
		names[provider] = struct{}{}
	}
	for _, offered := range []map[string]struct{}{n.naming[m.Name], n.admitting[m.Tenant], n.open[m.Tenant]} {
		maps.Copy(names, offered)
	}
	delete(names, m.Name)
	var out []peer
	for _, name := range slices.Sorted(maps.Keys(names)) {
		provider := n.known[name]
		p := peer{network: name, mode: modeOf(provider, m)}
		switch {
		case provider == nil || !offers(provider, m):
			p.state, p.problem = model.CompatibilityWaiting, notOffered(name)
		case !accepts(m, provider):
			p.state, p.problem, p.toProvider = model.CompatibilityWaiting, notUsed(m.Name), notUsed(m.Name)
		default:
			p.state = model.CompatibilityActive
			if problem := n.settings.conflict(provider, m, n.ranges); problem != nil {
				p.state, p.problem, p.toProvider = model.CompatibilityRefused, *problem, *problem
			} else {
				if p.mode != model.Routed && asksToJoin(provider, m) {
					askToJoin(&p, provider, m)
				}
				askForAddresses(&p, provider, m)
				askForServices(&p, provider, m)
			}
		}
		if p.problem.Reason == model.ReasonFlatNetwork && !slices.Contains(used(m), name) && !named(provider, m) {
			// A flat Network is not meant where a tenant's Networks or all are.
			continue
		}
		out = append(out, p)
	}
	return out
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// named reports whether a provider names a consumer itself.
func named(provider, consumer *model.Network) bool {
	return names(provider, consumer.Name)
}

// names reports whether a provider names a consumer, which need not exist.
func names(provider *model.Network, consumer string) bool {
	return slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool { return p.Network == consumer })
}

// offers reports whether a provider wants a consumer's pods to reach its own.
func offers(provider, consumer *model.Network) bool {
	return slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool { return means(p, provider, consumer) })
}

// means reports whether what a provider says is about a consumer.
func means(p model.CompatiblePeer, provider, consumer *model.Network) bool {
	switch {
	case p.All:
		return accepts(consumer, provider)
	case p.Tenant != "":
		return p.Tenant == consumer.Tenant
	}
	return p.Network == consumer.Name
}

// modeOf is the way between a provider and a consumer: Routed if the provider asks for that, and the consumer does, too, if it is another
// tenant's, and both agree to each other's ranges. Who is joined to a Network has its own packets led to addresses that one gives itself, so that
// it is not enough to use it.
func modeOf(provider, consumer *model.Network) model.CompatibilityMode {
	if provider == nil || !asksToJoin(provider, consumer) {
		return model.ByFace
	}
	if provider.Tenant == consumer.Tenant || asksToJoin(consumer, provider) && strange(provider, consumer) == nil {
		return model.Routed
	}
	return model.ByFace
}

// strange says to which range of one of two another's owner has not agreed, which keeps them from being joined; nil: there is none.
func strange(provider, consumer *model.Network) *model.Problem {
	for _, of := range [][2]*model.Network{{provider, consumer}, {consumer, provider}} {
		has, asked := of[0], of[1]
		ranges := worldwide(has)
		if offers(has, asked) && accepts(asked, has) {
			ranges = append(ranges, has.ServiceCIDRs...)
		}
		if r, found := unnamed(asked, has, ranges); found {
			return new(notAgreed(r, has.Name, asked.Name))
		}
	}
	return nil
}

// asksToJoin reports whether anything asks for mode Routed that a Network says about another.
func asksToJoin(m, other *model.Network) bool {
	return slices.ContainsFunc(m.CompatibleWith, func(p model.CompatiblePeer) bool { return p.Mode == model.Routed && means(p, m, other) })
}

// used are the Networks of other tenants that a Network says it wants to reach, by whatever addresses. The caller does not change them.
func used(m *model.Network) []string {
	if len(m.UsesAddressesOf) == 0 && len(m.UsesServiceCIDRs) == 0 {
		return m.Uses
	}
	return slices.AppendSeq(slices.Concat(m.Uses, m.UsesAddressesOf), maps.Keys(m.UsesServiceCIDRs))
}

// accepts reports whether a consumer wants to reach a provider: its own tenant's it does, another's it must name.
func accepts(consumer, provider *model.Network) bool {
	return consumer.Tenant == provider.Tenant || slices.Contains(used(consumer), provider.Name)
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
