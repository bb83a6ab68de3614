package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Around is what a policy's rules meet in one Network.
type Around struct {
	Layout Layout
	// Named: the ports with a name that pods have which a selector selects, by whose they are, in order.
	Named map[NamedPorts][]Given
	// Nodes: the addresses of the nodes that a selector selects, by its text.
	Nodes map[string][]netip.Addr
	// Hosts are nodes under the addresses by which pods of other nodes see them.
	Hosts []Host
	// Doors lead from the Network to what is somewhere else in other clusters.
	Doors []Door
	// Faces are the ranges of the faces of the Network's pods; none where they have none.
	Faces []netip.Prefix
	// Remote: in that direction selectors of peers mean pods of other Networks, too. RemoteNamed are the ports with a name that those of
	// them have to which the Network's pods may send.
	Remote      [2]bool
	RemoteNamed map[NamedPorts][]Given
}

// NamedPorts asks for the ports of that name of the pods that a selector selects. Protocol is empty for any.
type NamedPorts struct {
	Pods     string
	Name     string
	Protocol model.Protocol
}

// Everybody selects all pods.
func Everybody() match.Pods { return match.Pods{} }

// PolicyOwner is the owner of a policy's rows in a Network.
func PolicyOwner(policy model.PolicyKey, network string) nb.Owner {
	return nb.PolicyOwner(nb.Kind(policy.Kind), policy.Namespace, policy.Name, network)
}

// Policy gives the ACLs of a policy in one Network. Peers are pods of the same Network, or addresses as the Network's pods dial
// and see them, those of pods of Networks that it has to do with among them; the ACLs hang on a group of the Network's own ports.
// So a pod of another Network cannot be judged, and one of a Network that has nothing to do with this one cannot be meant.
func Policy(p model.Policy, in Around) nb.Facts {
	var facts nb.Facts
	b := in.bound(p)
	p = b.Policy
	c := policyCompiler{
		policy: p, around: in, group: PodsGroup(p.Subject), facts: &facts,
		aclBuilder: aclBuilder{
			layout: in.Layout, owner: PolicyOwner(p.Key, in.Layout.Name), uid: p.UID,
			origin: nb.Origin{Policy: p.Key.String()}, meter: meterOf(p),
		},
	}
	for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
		for i, r := range p.Rules[d] {
			c.direction, c.index, c.rule, c.named = d, i, r, b.named[d][i]
			c.place(strconv.Itoa(i))
			c.compile()
		}
		if p.Isolates[d] && p.Log {
			c.logIsolation(d)
		}
	}
	return facts
}

// Members say whose ports are in a group: those of pods that a selector selects, by its text, or of some of them; or, without
// one, those of the pods that a block means. Remote: it is a RemoteGroup of that direction. Share: it is a ShareGroup of that tenant.
type Members struct {
	Selector  string
	Share     string
	Block     model.Block
	Remote    bool
	Direction model.Direction
}

// Groups are the port groups that a policy's rows need.
func Groups(p model.Policy, in Around) map[Group]Members {
	b := in.bound(p)
	p = b.Policy
	subject := Members{Selector: p.Subject.String()}
	groups := map[Group]Members{PodsGroup(p.Subject): subject}
	for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
		if p.Isolates[d] {
			groups[IsolatedGroup(d)] = subject
		}
		for i, r := range p.Rules[d] {
			for _, peer := range r.Peers {
				if peer.Pods != nil {
					groups[PodsGroup(*peer.Pods)] = Members{Selector: peer.Pods.String()}
				}
				if peer.Block != nil && in.byPods(*peer.Block) {
					groups[BlockGroup(*peer.Block)] = Members{Block: *peer.Block}
				}
			}
			for ask, pods := range asks(p, d, r) {
				maps.Copy(groups, namedGroups(pods, r, b.named[d][i].own[ask]))
			}
			remoteGroups(groups, b, d, i, in)
		}
	}
	if p.Judges() {
		groups[JudgedGroup()] = subject
	}
	return groups
}

// namedGroups are the groups of pods with ports of a name that a rule needs: of each number that counts, and of each tenant whose
// numbers do not, unless the rule allows.
func namedGroups(pods match.Pods, r model.Rule, of counted) map[Group]Members {
	out := map[Group]Members{}
	for _, port := range of.ports {
		out[NamedGroup(pods, port)] = Members{Selector: pods.String()}
	}
	for _, g := range of.apart {
		for _, port := range g.Ports {
			out[ShareNamedGroup(pods, port, g.Tenant)] = Members{Selector: pods.String(), Share: g.Tenant}
		}
	}
	if r.Verdict != model.Allow {
		for _, tenant := range of.beyond {
			out[ShareGroup(pods, tenant)] = Members{Selector: pods.String(), Share: tenant}
		}
	}
	return out
}

// Names are the names of ports that a policy asks for, and whose.
func Names(p model.Policy) map[NamedPorts]match.Pods {
	out := map[NamedPorts]match.Pods{}
	for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
		for _, r := range p.Rules[d] {
			maps.Copy(out, asks(p, d, r))
		}
	}
	return out
}

// asks are the names of ports that a rule asks for, and whose.
func asks(p model.Policy, d model.Direction, r model.Rule) map[NamedPorts]match.Pods {
	out := map[NamedPorts]match.Pods{}
	var all []match.Pods
	for _, port := range r.Ports {
		if port.Name == "" {
			continue
		}
		if all == nil {
			all = namers(p, d, r)
		}
		for _, pods := range all {
			out[NamedPorts{pods.String(), port.Name, port.Protocol}] = pods
		}
	}
	return out
}

// namers are the pods whose names for ports a rule means: those that packets go to. Behind addresses that may be any pods.
func namers(p model.Policy, d model.Direction, r model.Rule) []match.Pods {
	if d == model.PolicyIngress {
		return []match.Pods{p.Subject}
	}
	if r.AnyPeer {
		return []match.Pods{Everybody()}
	}
	var out []match.Pods
	for _, peer := range r.Peers {
		if peer.Pods != nil {
			out = append(out, *peer.Pods)
		}
	}
	if slices.ContainsFunc(r.Peers, func(peer model.Peer) bool { return peer.Pods == nil }) {
		out = append(out, Everybody())
	}
	return out
}

// policyCompiler compiles one rule after the other.
type policyCompiler struct {
	aclBuilder
	policy    model.Policy
	around    Around
	group     Group
	direction model.Direction
	index     int
	rule      model.Rule
	// named says which of the rule's ports with a name count.
	named named
	// meant are the pods that the rule's peers are, by their texts, where it is compiled for names.
	meant map[string]bool
	facts *nb.Facts
}

// side is the pod's side of the match, and peer the field with the other's address.
func (c policyCompiler) side(g Group) string {
	if c.direction == model.PolicyIngress {
		return "outport == @" + GroupName(c.layout, g)
	}
	return "inport == @" + GroupName(c.layout, g)
}

func (c policyCompiler) peerField(family string) string {
	if c.direction == model.PolicyIngress {
		return family + ".src"
	}
	return family + ".dst"
}

// add makes an ACL of the rule.
func (c policyCompiler) add(key, match string) {
	key = fmt.Sprintf("%s/%d/%s", c.direction, c.index, key)
	c.facts.Add(c.acl(c.group, key, c.direction, verdictOf(c.rule.Verdict), tierOf(c.policy.Tier), priorityOf(c.policy, c.index), match))
}

func (c policyCompiler) compile() {
	for _, f := range c.peers() {
		base := c.side(c.group) + " && " + f.match
		if c.rule.AnyPort {
			c.add(f.key, base)
			continue
		}
		for _, p := range numbered(c.rule.Ports) {
			c.add(f.key+"/"+string(p.protocol), base+" && "+p.match)
		}
	}
	c.compileNamed()
	if c.direction == model.PolicyEgress {
		c.compileDoors()
	}
}

// alternative is one match of several, with a key that tells it from the others.
type alternative struct{ key, match string }

// peers match the rule's peers: of both IP families at once when anybody is meant, else of each that the Network has.
func (c policyCompiler) peers() []alternative {
	if c.rule.AnyPeer {
		return []alternative{{"ip", "ip"}}
	}
	var out []alternative
	for _, v4 := range []bool{true, false} {
		family := familyOf(v4)
		switch elements, all := c.peerElements(v4); {
		case !c.layout.Has(v4):
		case all:
			out = append(out, alternative{family, family})
		case len(elements) > 0:
			out = append(out, alternative{family, c.peerField(family) + " == " + anyOf(elements)})
		}
	}
	return out
}

func familyOf(v4 bool) string {
	if v4 {
		return "ip4"
	}
	return "ip6"
}

// meansAll reports whether the rule means all of these pods, whatever their addresses.
func (c policyCompiler) meansAll(pods match.Pods) bool {
	return c.rule.AnyPeer || c.meant[pods.String()]
}

// peerElements are the address sets and prefixes of one IP family that the rule's peers are; all: these are all addresses.
func (c policyCompiler) peerElements(v4 bool) (elements []string, all bool) {
	sets := map[string]struct{}{}
	for _, peer := range c.rule.Peers {
		if peer.Pods != nil {
			for _, g := range c.withRemote(PodsGroup(*peer.Pods)) {
				sets[c.addressSet(g, v4)] = struct{}{}
			}
		}
	}
	blocks, all := c.blockElements(v4)
	return append(slices.Sorted(maps.Keys(sets)), blocks...), all
}

// blockElements are those that its blocks and nodes are; all: these are all addresses.
func (c policyCompiler) blockElements(v4 bool) (elements []string, all bool) {
	var prefixes []netip.Prefix
	sets := map[string]struct{}{}
	for _, peer := range c.rule.Peers {
		if peer.Block != nil && peer.Block.CIDR.Addr().Is4() == v4 && c.around.byPods(*peer.Block) {
			sets[c.addressSet(BlockGroup(*peer.Block), v4)] = struct{}{}
		}
		for _, b := range c.blocks(peer) {
			prefixes = append(prefixes, c.around.addresses(b, v4)...)
		}
	}
	prefixes = model.Outermost(prefixes)
	return append(slices.Sorted(maps.Keys(sets)), textsOf(prefixes)...), len(prefixes) > 0 && prefixes[0].Bits() == 0
}

// addressSet is the set of the addresses of a group's ports that OVN keeps.
func (c policyCompiler) addressSet(g Group, v4 bool) string {
	return "$" + GroupName(c.layout, g) + "_" + familyOf(v4)
}

// blocks are the ranges of addresses that a peer is.
func (c policyCompiler) blocks(peer model.Peer) []model.Block {
	switch {
	case peer.Block != nil:
		return []model.Block{*peer.Block}
	case peer.Nodes != nil:
		var out []model.Block
		for _, a := range c.around.Nodes[peer.Nodes.String()] {
			out = append(out, model.Block{CIDR: netip.PrefixFrom(a, a.BitLen())})
		}
		return out
	}
	return nil
}

// textsOf are prefixes as OVN writes them: a single address without its length.
func textsOf(prefixes []netip.Prefix) []string {
	var out []string
	for _, p := range prefixes {
		if p.IsSingleIP() {
			out = append(out, p.Addr().String())
		} else {
			out = append(out, p.String())
		}
	}
	return out
}

// anyOf is one element, or a set of several.
func anyOf(elements []string) string {
	if len(elements) == 1 {
		return elements[0]
	}
	return "{" + strings.Join(elements, ", ") + "}"
}

// protocolMatch is a match of the ports of one protocol.
type protocolMatch struct {
	protocol model.Protocol
	match    string
}

// numbered match the ports that are numbers, protocol by protocol.
func numbered(ports []model.PolicyPort) []protocolMatch {
	var out []protocolMatch
	for _, protocol := range []model.Protocol{model.TCP, model.UDP, model.SCTP} {
		all, wanted := false, make([]span, 0, len(ports))
		for _, p := range ports {
			if p.Protocol != protocol || p.Name != "" {
				continue
			}
			all = all || p.First == 0
			wanted = append(wanted, span{p.First, p.Last})
		}
		switch {
		case all:
			out = append(out, protocolMatch{protocol, string(protocol)})
		case len(wanted) > 0:
			var masks []string
			for _, s := range joined(wanted) {
				masks = append(masks, portMasks(s.first, s.last)...)
			}
			out = append(out, protocolMatch{protocol, string(protocol) + ".dst == " + anyOf(masks)})
		}
	}
	return out
}

// compileNamed makes the ACLs of ports that are names: for each number that pods give to the name.
func (c policyCompiler) compileNamed() {
	c.meant = map[string]bool{}
	for _, peer := range c.rule.Peers {
		if peer.Pods != nil {
			c.meant[peer.Pods.String()] = true
		}
	}
	done, asked, all := map[string]bool{}, map[NamedPorts]bool{}, namers(c.policy, c.direction, c.rule)
	for _, port := range c.rule.Ports {
		if port.Name == "" {
			continue
		}
		for _, pods := range all {
			ask := NamedPorts{pods.String(), port.Name, port.Protocol}
			// A rule may say the same many times.
			if asked[ask] {
				continue
			}
			asked[ask] = true
			c.addCounted(pods, c.named.own[ask], func(g Group) Group { return g }, done)
			if c.direction == model.PolicyEgress && c.around.Remote[c.direction] {
				c.addCounted(pods, c.named.remote[ask], func(g Group) Group { return RemoteGroup(c.direction, g) }, done)
			}
		}
	}
}

// addCounted makes the ACLs of the numbers of a name that count, and of a rule that denies or passes those of all ports of the
// tenants whose numbers do not.
func (c policyCompiler) addCounted(pods match.Pods, of counted, groupOf func(Group) Group, done map[string]bool) {
	number := func(g Group, port model.PodPort) {
		c.addNamed(pods, groupOf(g), fmt.Sprintf(" && %s.dst == %d", port.Protocol, port.Port), done)
	}
	for _, port := range of.ports {
		number(NamedGroup(pods, port), port)
	}
	for _, g := range of.apart {
		for _, port := range g.Ports {
			number(ShareNamedGroup(pods, port, g.Tenant), port)
		}
	}
	if c.rule.Verdict == model.Allow {
		return
	}
	c.rule.Verdict = model.Deny
	for _, tenant := range of.beyond {
		c.addNamed(pods, groupOf(ShareGroup(pods, tenant)), "", done)
	}
}

// addNamed makes the ACLs of ports of the pods of a group, if they are not there already.
func (c policyCompiler) addNamed(pods match.Pods, group Group, ports string, done map[string]bool) {
	for _, f := range c.namedPeers(pods, group) {
		key := "named/" + f.key + "/" + GroupName(c.layout, group)
		if !done[key] {
			done[key] = true
			c.add(key, f.match+ports)
		}
	}
}

// namedPeers match what the rule says of both sides, where the side that packets go to is the group with the name: those
// of pods.
func (c policyCompiler) namedPeers(pods match.Pods, named Group) []alternative {
	if c.direction == model.PolicyEgress {
		var out []alternative
		for _, v4 := range []bool{true, false} {
			family := familyOf(v4)
			words := c.side(c.group) + " && " + family + ".dst == " + c.addressSet(named, v4)
			if !c.meansAll(pods) {
				elements, all := c.blockElements(v4)
				if len(elements) == 0 {
					continue
				}
				if !all {
					words += " && " + family + ".dst == " + anyOf(elements)
				}
			}
			if c.layout.Has(v4) {
				out = append(out, alternative{family, words})
			}
		}
		return out
	}
	peers := c.peers()
	for i := range peers {
		peers[i].match = c.side(named) + " && " + peers[i].match
	}
	return peers
}

// aclName is what logs say of an ACL: the policy, and which of its rules, or that it isolates.
func aclName(key model.PolicyKey, d model.Direction, rule string) string {
	const longest = 63
	tail := ":" + d.String() + ":" + rule
	name := strings.TrimPrefix(key.Namespace+"/"+key.Name, "/")
	if len(name)+len(tail) > longest {
		name = name[:longest-len(tail)]
	}
	return name + tail
}
