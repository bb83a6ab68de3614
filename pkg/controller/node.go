package controller

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// node is a node and what it has. It outlives its Node for as long as pods hold its faces.
type node struct {
	name  string
	model *model.Node
	// faces give the node's pods their faces: at most one pool per range.
	faces []*alloc.Pool
	// pods hold faces of the node, or wait for them; those that are short of them were refused, since others have them.
	pods, short map[model.PodKey]struct{}
	// subnet of the default Network that addresses are held in, and network that Network's UID; none held when empty.
	network, subnet string
	addresses       []netip.Addr
	// have is what was written down of it last, while it holds addresses.
	have model.NodeNetwork
	// problem is what its owner was told last.
	problem *model.Problem
}

func (s *State) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{name: name, pods: map[model.PodKey]struct{}{}, short: map[model.PodKey]struct{}{}}
		s.nodes[name] = n
	}
	return n
}

// applyNodes takes nodes in, and gives them blocks before the pods are looked at. Those that have one keep it, and so
// do those that pods have faces of, before others get the next. New addresses come after the pods', in placeNodes.
func (s *State) applyNodes(changed map[string]*model.Node, dirty map[model.PodKey]struct{}) {
	var order []*node
	for name, m := range changed {
		n := s.node(name)
		s.policies.nodesMoved = s.policies.nodesMoved || !sameToPolicies(n.model, m)
		n.model = m
		order = append(order, n)
		s.moved[name] = struct{}{}
	}
	s.noteAddresses(order)
	slices.SortFunc(order, compareNodes)
	for _, n := range order {
		maps.Copy(dirty, n.pods)
	}
	order = slices.DeleteFunc(order, func(n *node) bool { return n.model == nil })
	for _, n := range order {
		s.keepBlocks(n)
	}
	s.reclaim(dirty)
	for _, n := range order {
		s.giveBlocks(n)
		// One that is being deleted serves once its pods are known; those that nodes have are not for them.
		if home := s.networks[s.defaults.Network]; home != nil && len(home.layout.Subnets) > 0 && n.assignedIn(home) {
			s.giveAddresses(home, n)
		}
	}
}

// sameToPolicies reports whether policies that ask for nodes mean the same by either.
func sameToPolicies(a, b *model.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Addresses, b.Addresses)
}

// noteAddresses keeps the set of all nodes' addresses; Services may have endpoints there.
func (s *State) noteAddresses(changed []*node) {
	if len(changed) == 0 {
		return
	}
	all := map[netip.Addr]struct{}{}
	for _, n := range s.nodes {
		if n.model != nil {
			for _, a := range n.model.Addresses {
				all[a] = struct{}{}
			}
		}
	}
	if !maps.Equal(all, s.nodeAddresses) {
		for _, pair := range [][2]map[netip.Addr]struct{}{{all, s.nodeAddresses}, {s.nodeAddresses, all}} {
			for a := range pair[0] {
				if _, still := pair[1][a]; !still {
					s.services.touchHost(a)
				}
			}
		}
		s.nodeAddresses = all
		s.flats.stale = s.flats.stale || len(s.flats.names) > 0
		s.unsettled = true
	}
}

// reclaim takes the blocks that pods have faces of for their nodes, where nothing is written on these: a Node may be
// made anew, or be away, while its pods run.
func (s *State) reclaim(pods map[model.PodKey]struct{}) {
	if len(s.faces) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(pods), model.PodKey.Compare) {
		p := s.pods[key]
		if p == nil || len(p.Assigned) == 0 || len(p.Assigned[0].Faces) == 0 {
			continue
		}
		n := s.node(p.Node)
		if len(n.faces) > 0 {
			continue
		}
		s.moved[n.name] = struct{}{}
		for _, r := range s.faces {
			s.takeBlock(n, r, blocksOf(p.Assigned[0].Faces, r))
		}
	}
}

// blocksOf are the blocks that faces are of.
func blocksOf(faces []netip.Addr, r *alloc.Blocks) []netip.Prefix {
	var out []netip.Prefix
	for _, face := range faces {
		if block, ok := r.Holding(face); ok {
			out = append(out, block)
		}
	}
	return out
}

// takeBlock gives a node the first of several blocks that is free.
func (s *State) takeBlock(n *node, r *alloc.Blocks, blocks []netip.Prefix) {
	for _, block := range blocks {
		if outcome, _ := r.Take(block, n.name); outcome == alloc.Taken {
			n.addBlock(block)
			return
		}
	}
}

func (n *node) addBlock(block netip.Prefix) {
	// A block is short enough for any pool.
	if pool, err := alloc.New(block, nil); err == nil {
		n.faces = append(n.faces, pool)
	}
}

// assignedIn reports whether an address of the Network is written on the node.
func (n *node) assignedIn(home *network) bool {
	a := n.model.Assigned
	return a != nil && a.NetworkUID == home.model.UID && len(a.Addresses) > 0
}

// rehold takes the addresses that nodes hold in the default Network out of its pools, which were made anew.
func (s *State) rehold(home *network) {
	for _, n := range s.nodes {
		if n.network == home.model.UID {
			for i, pool := range home.pools[n.subnet] {
				if i < len(n.addresses) {
					pool.Keep(n.addresses[i], nodeHolder(n.name))
				}
			}
		}
	}
}

// compareNodes orders nodes: those with blocks first, older before younger.
func compareNodes(a, b *node) int {
	if a.model == nil || b.model == nil {
		return cmp.Or(cmp.Compare(b2i(a.model != nil), b2i(b.model != nil)), cmp.Compare(a.name, b.name))
	}
	return cmp.Or(
		cmp.Compare(b2i(a.model.Assigned == nil), b2i(b.model.Assigned == nil)),
		a.model.Created.Compare(b.model.Created),
		cmp.Compare(a.name, b.name),
	)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// serves reports whether pods can get faces: the node's blocks are written on it, so that another controller would
// give it the same.
func (n *node) serves() bool {
	if n.model == nil || n.model.Assigned == nil || len(n.faces) == 0 {
		return false
	}
	return slices.Equal(n.model.Assigned.Faces, n.blocks())
}

func (n *node) blocks() []netip.Prefix {
	blocks := make([]netip.Prefix, 0, len(n.faces))
	for _, p := range n.faces {
		blocks = append(blocks, p.Prefix())
	}
	return blocks
}

// keepBlocks has a node keep the blocks that are written on it.
func (s *State) keepBlocks(n *node) {
	for _, r := range s.faces {
		if n.model.Assigned != nil && n.pool(r.Range().Addr().Is4()) == nil {
			s.takeBlock(n, r, n.model.Assigned.Faces)
		}
	}
}

// giveBlocks gives a node a block of each range: the one written on it, else the next.
func (s *State) giveBlocks(n *node) {
	s.keepBlocks(n)
	for _, r := range s.faces {
		if n.pool(r.Range().Addr().Is4()) != nil {
			continue
		}
		block, ok := r.Next(n.name)
		if !ok {
			s.nodeProblem(n, model.Problem{
				Reason:  model.ReasonNoFaces,
				Message: fmt.Sprintf("no block is free in %s: pods of this node's Networks cannot start; give the controller a larger range (--face-ranges)", r.Range()),
			})
			continue
		}
		n.addBlock(block)
	}
	slices.SortFunc(n.faces, func(a, b *alloc.Pool) int { return a.Prefix().Addr().Compare(b.Prefix().Addr()) })
}

func (n *node) pool(v4 bool) *alloc.Pool {
	for _, p := range n.faces {
		if p.Prefix().Addr().Is4() == v4 {
			return p
		}
	}
	return nil
}

// placeNodes gives nodes that changed, or all when the default Network did, their place in the default Network; and
// forgets those that have gone.
func (s *State) placeNodes() {
	home := s.networks[s.defaults.Network]
	// A default Network that is being deleted goes with its last pod.
	if _, touched := s.replanned[s.defaults.Network]; touched || home.serves() != s.housed {
		s.unsettled, s.housed = true, home.serves()
		for name := range s.nodes {
			s.moved[name] = struct{}{}
		}
	}
	s.findConflicts()
	clear(s.replanned)
	_, room := s.freed[s.defaults.Network]
	var order []*node
	for name := range s.moved {
		if n := s.nodes[name]; n != nil && n.model == nil {
			s.forgetNode(home, n)
			room = true
		}
	}
	if room {
		maps.Copy(s.moved, s.homeless)
	}
	for name := range s.moved {
		if n := s.nodes[name]; n != nil && n.model != nil {
			order = append(order, n)
		}
	}
	clear(s.moved)
	// Whoever has an address keeps it: a default Network that is being deleted serves only once its pods are known, so that
	// after a restart nodes have taken none yet.
	newcomer := func(n *node) bool { return !home.serves() || !n.assignedIn(home) }
	slices.SortFunc(order, func(a, b *node) int {
		return cmp.Or(cmp.Compare(b2i(newcomer(a)), b2i(newcomer(b))), compareNodes(a, b))
	})
	for _, n := range order {
		s.placeNode(home, n)
	}
}

// forgetNode takes what a node had that has gone; its faces once no pod holds one of them.
func (s *State) forgetNode(home *network, n *node) {
	s.leaveHome(home, n)
	s.graph.Delete(nb.NodeOwner(n.name))
	delete(s.homeless, n.name)
	if slices.ContainsFunc(n.faces, func(pool *alloc.Pool) bool { return pool.Used() > 0 }) {
		return
	}
	for _, pool := range n.faces {
		for _, r := range s.faces {
			r.Release(pool.Prefix(), n.name)
		}
	}
	n.faces = nil
	// Pods may wait for another Node of its name.
	if len(n.pods) == 0 {
		delete(s.nodes, n.name)
	}
}

// leaveHome gives a node's addresses in the default Network back.
func (s *State) leaveHome(home *network, n *node) {
	if home != nil && home.model != nil && home.model.UID == n.network && len(n.addresses) > 0 {
		freeHolder(home.pools[n.subnet], n.addresses, nodeHolder(n.name))
		s.touched[home.name] = struct{}{}
		s.freed[home.name] = struct{}{}
	}
	n.network, n.subnet, n.addresses = "", "", nil
}

// nodeHolder is a node's name among the holders of addresses; no pod has a name with a colon.
func nodeHolder(name string) string { return "node:" + name }

// placeNode gives a node its addresses and its port in the default Network, and writes down what it has.
func (s *State) placeNode(home *network, n *node) {
	delete(s.homeless, n.name)
	s.giveBlocks(n)
	have := model.NodeNetwork{NodeUID: n.model.UID, Faces: n.blocks()}
	if home.serves() {
		s.giveAddresses(home, n)
	} else {
		s.leaveHome(home, n)
	}
	if len(n.addresses) > 0 {
		layout := home.layout.Subnets[0]
		have.Network, have.NetworkUID, have.MAC = home.name, home.model.UID, compile.NodeMAC(n.name)
		for i, r := range layout.Ranges {
			have.Addresses = append(have.Addresses, netip.PrefixFrom(n.addresses[i], r.CIDR.Bits()))
			have.Gateways = append(have.Gateways, r.Gateway)
		}
		have.Flat = s.flats.ranges
		n.have = have
		s.nodeRows(home, n)
	} else {
		s.graph.Delete(nb.NodeOwner(n.name))
	}
	if n.model.Assigned == nil || !reflect.DeepEqual(*n.model.Assigned, have) {
		s.sink.WriteNode(n.name, n.model.UID, have)
	}
}

// nodeRows writes down the rows of a node that has its place in the default Network.
func (s *State) nodeRows(home *network, n *node) {
	facts := compile.Node(home.layout, n.name, n.have)
	if s.guards(home) {
		facts.Members = append(facts.Members, compile.NodeWay(home.layout, n.name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.flats.names)) {
		s.nodeAccess(s.networks[name], n, &facts)
	}
	s.nodeAccess(home, n, &facts)
	s.graph.Set(nb.NodeOwner(n.name), facts)
}

// nodeAccess lets a node in to its own pods of a flat Network, while a policy judges any.
func (s *State) nodeAccess(flat *network, n *node, facts *nb.Facts) {
	if flat.serves() && s.policies.groups[groupIn{flat.name, flat.model.UID, compile.JudgedGroup()}] != nil {
		facts.Add(compile.NodeAccess(flat.layout, s.defaults.Network, n.name, n.have))
	}
}

// serves reports whether the Network's rows are wanted.
func (n *network) serves() bool {
	return n != nil && n.model != nil && len(n.layout.Subnets) > 0 && (!n.model.Deleting || len(n.attached) > 0) &&
		(n.home == nil || n.home.serves())
}

// giveAddresses takes the node's addresses of the default Network's first subnet: what it has, what is written on it,
// or the next.
func (s *State) giveAddresses(home *network, n *node) {
	subnet := home.layout.Subnets[0].Name
	if n.network != home.model.UID || n.subnet != subnet {
		s.leaveHome(home, n)
	}
	former := n.addresses
	if a := n.model.Assigned; len(former) == 0 && a != nil && a.NetworkUID == home.model.UID {
		for _, p := range a.Addresses {
			former = append(former, p.Addr())
		}
	}
	var taken []netip.Addr
	for _, pool := range home.pools[subnet] {
		i := slices.IndexFunc(former, pool.Prefix().Contains)
		if i >= 0 {
			if outcome, _ := pool.Keep(former[i], nodeHolder(n.name)); outcome == alloc.Taken {
				taken = append(taken, former[i])
				continue
			}
		}
		a, ok := pool.Next(nodeHolder(n.name))
		if !ok {
			freeHolder(home.pools[subnet], taken, nodeHolder(n.name))
			n.network, n.subnet, n.addresses = "", "", nil
			s.nodeProblem(n, model.Problem{
				Reason:  model.ReasonSubnetFull,
				Message: fmt.Sprintf("no address is free in %s of Network %q for the node: it does not reach pods of other nodes", pool.Prefix(), home.name),
			})
			return
		}
		taken = append(taken, a)
	}
	if !slices.Equal(taken, n.addresses) {
		s.touched[home.name] = struct{}{}
	}
	n.network, n.subnet, n.addresses = home.model.UID, subnet, taken
}

func freeHolder(pools []*alloc.Pool, addresses []netip.Addr, holder string) {
	for _, a := range addresses {
		for _, pool := range pools {
			pool.Release(a, holder)
		}
	}
}

// nodeProblem says once what a node lacks; it is tried again when something comes free.
func (s *State) nodeProblem(n *node, p model.Problem) {
	s.homeless[n.name] = struct{}{}
	if n.problem == nil || *n.problem != p {
		s.sink.NodeEvent(n.name, n.model.UID, p)
	}
	n.problem = &p
}
