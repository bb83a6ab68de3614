package policies

import (
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// groupKey is a port group of a Network, or what stands for one of pods of other Networks (compile.RemoteGroup); a Network that
// is made anew under its name has others.
type groupKey struct {
	network, uid string
	group        compile.Group
}

// group is a port group that is there for as long as anybody needs it.
type group struct {
	layout compile.Layout
	// row is the port group's; a remote group has others.
	row nb.Ref
	// members says whose ports are in it.
	members compile.Members
	users   int
}

// acquire takes a port group for a policy of a namespace; the first one who needs it has it made.
func (s *Stage) acquire(key groupKey, members compile.Members, l compile.Layout, namespace string) {
	s.use(key, l, namespace, +1)
	g := s.groups[key]
	if g == nil {
		g = &group{layout: l, row: compile.GroupRef(l, key.group), members: members}
		s.groups[key] = g
		rows := compile.PortGroup
		if members.Remote {
			rows = compile.RemoteSets
			s.remote.Add(key.network, key)
		}
		s.graph.Set(compile.GroupOwner(l, key.group), rows(l, key.group))
		switch {
		case s.selectors[members.Selector] == nil:
			s.blocksOf(key.uid).add(members.Block)
		case members.Share != "":
			s.shares++
		}
		s.tellMembers(key, members)
	}
	g.users++
}

// use counts who names a port group: what such policies change in a Network is written together. The groups of all isolated pods, and
// of all judged ones, are everybody's.
func (s *Stage) use(key groupKey, l compile.Layout, namespace string, by int) {
	switch key.group {
	case compile.IsolatedGroup(model.PolicyIngress), compile.IsolatedGroup(model.PolicyEgress), compile.JudgedGroup():
	default:
		s.graph.Use(compile.GroupOwner(l, key.group), namespace, by)
	}
}

// release gives a port group back; the last one who needed it has it removed.
func (s *Stage) release(key groupKey, namespace string) {
	g := s.groups[key]
	s.use(key, g.layout, namespace, -1)
	if g.users--; g.users > 0 {
		return
	}
	delete(s.groups, key)
	s.remote.Drop(key.network, key)
	s.graph.Delete(compile.GroupOwner(g.layout, key.group))
	s.tellMembers(key, g.members)
	if g.members.Share != "" {
		s.shares--
	}
	if s.selectors[g.members.Selector] == nil && s.blocksOf(key.uid).remove(g.members.Block) {
		delete(s.blocks, key.uid)
	}
}

// tellMembers tells of the pods whose ports are in a group that comes or goes.
func (s *Stage) tellMembers(key groupKey, members compile.Members) {
	if key.group == compile.JudgedGroup() {
		s.JudgingChanged.Changed(key.network)
	}
	if members.Remote {
		s.tellRemote(key.network, members)
		return
	}
	if sel := s.selectors[members.Selector]; sel != nil {
		s.tellGroups(sel.selected[key.network])
		return
	}
	for pod := range s.world.Networks.Holders(key.network) {
		if a := s.world.Pods.Attachment(pod); a != nil && members.Block.Means(knownBy(*a)) {
			s.GroupsChanged.Changed(pod)
		}
	}
}

// Judges reports whether any policy judges pods of a Network.
func (s *Stage) Judges(n *model.Network) bool {
	return s.groups[groupKey{n.Name, n.UID, compile.JudgedGroup()}] != nil
}

// GroupsOf are the port groups that the port of a pod with that attachment is in, in the order of their UUIDs: of those that policies
// need in its Network.
func (s *Stage) GroupsOf(key model.PodKey, a model.Attachment) []nb.Ref {
	m := s.members[key]
	if m == nil {
		return nil
	}
	rows := map[nb.Ref]struct{}{}
	enter := func(words compile.Group) {
		if g := s.groups[groupKey{a.Network, a.NetworkUID, words}]; g != nil {
			rows[g.row] = struct{}{}
		}
	}
	for sel := range m.selectors {
		s.enterBy(sel, m, enter)
		for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
			if sel.isolates[d] > 0 {
				enter(compile.IsolatedGroup(d))
			}
		}
		if sel.judges > 0 {
			enter(compile.JudgedGroup())
		}
	}
	if b := s.blocks[a.NetworkUID]; b != nil {
		for _, meant := range b.meaning(knownBy(a)) {
			enter(compile.BlockGroup(meant))
		}
	}
	return slices.SortedFunc(maps.Keys(rows), func(a, b nb.Ref) int { return strings.Compare(a.UUID, b.UUID) })
}

// enterBy calls enter for the groups in which a pod may be because a selector selects it.
func (s *Stage) enterBy(sel *selector, m *member, enter func(compile.Group)) {
	enter(sel.group)
	if s.shares > 0 {
		enter(compile.ShareGroup(sel.pods, m.share))
	}
	for _, p := range m.ports {
		enter(compile.NamedGroup(sel.pods, p))
		if s.shares > 0 {
			enter(compile.ShareNamedGroup(sel.pods, p, m.share))
		}
	}
}
