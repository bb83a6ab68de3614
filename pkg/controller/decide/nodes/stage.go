package nodes

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// World is what nodes are decided by, and where decisions go.
type World struct {
	// Home is the name of the default Network, where nodes have their addresses.
	Home     string
	Subnets  *ledger.Subnets
	Faces    *ledger.Faces
	Spare    ledger.Spare
	Networks *networks.Stage
	Policies Policies
	Graph    *graph.Graph
	Sink     Sink
}

// Policies judge pods that nodes reach.
type Policies interface {
	// Judges reports whether a policy judges any pod of a Network.
	Judges(n *model.Network) bool
}

// Sink takes what is decided. A kube.Writer is one.
type Sink interface {
	WriteNode(name, uid string, n model.NodeNetwork)
	Event(about model.ObjectRef, p model.Problem)
}

// Stages are where in a pass nodes are decided about.
type Stages struct {
	// Blocks gives nodes their blocks, Places their addresses. Ports are written until Leaves.
	Blocks, Places, Leaves pass.Stage
}

// Stage decides about nodes.
type Stage struct {
	// Changed tells of nodes that came, changed or went. AddressesChanged: others have addresses of the default Network.
	Changed          *pass.Topic[string]
	AddressesChanged *pass.Topic[string]

	World
	nodes map[string]*node
	// came are the nodes that changed in this pass.
	came []*node
	// queue has the nodes whose place is to be decided about, ports those whose ports are to be written.
	queue, ports *pass.Queue[string]
	// former are the addresses that nodes had which have gone, by their names; the place of each tells which went first.
	former map[string]formerAddresses
	gone   uint64
	// lacking nodes have no address in the default Network or no block of faces, because none is free.
	lacking map[string]struct{}
}

// node is a node and what it has. Its faces are in the ledger, and stay there for as long as pods hold one.
type node struct {
	name  string
	model *model.Node
	// subnet of the default Network that addresses are held in, and network that Network's UID; none held when empty.
	network, subnet string
	addresses       []netip.Addr
	// have is what was written down of it last, while it holds addresses.
	have model.NodeNetwork
	// told is what the owner of the Node of that UID was told last.
	told struct {
		uid     string
		problem model.Problem
	}
}

// formerAddresses are those that a node had in a subnet of the default Network, and that Network's UID.
type formerAddresses struct {
	network, subnet string
	addresses       []netip.Addr
	// gone is less than of one that went later.
	gone uint64
}

// maxFormer bounds how many nodes are remembered that have gone.
const maxFormer = 1024

// New makes a stage without nodes.
func New(w World, stages Stages) *Stage {
	s := &Stage{
		Changed: pass.NewTopic[string](stages.Blocks), AddressesChanged: pass.NewTopic[string](stages.Places),
		World: w, nodes: map[string]*node{}, former: map[string]formerAddresses{}, lacking: map[string]struct{}{},
		queue: pass.NewQueue[string](stages.Places), ports: pass.NewQueue[string](stages.Leaves),
	}
	w.Subnets.Freed.Follow(stages.Places, func(network string) {
		if network == w.Home {
			s.queue.MarkAll(s.lacking)
		}
	})
	w.Faces.Freed.Follow(stages.Places, s.noteGone)
	w.Networks.HomeChanged.Follow(stages.Places, func(struct{}) {
		for name := range s.nodes {
			s.queue.Mark(name)
		}
	})
	w.Networks.GuardChanged.Follow(stages.Leaves, func(struct{}) { s.markPorts() })
	return s
}

// BlocksTaken says that a node has blocks now because pods have faces of them.
func (s *Stage) BlocksTaken(name string) { s.queue.Mark(name) }

// JudgingChanged says that policies judge pods of a Network, or do so no more.
func (s *Stage) JudgingChanged(network string) {
	if s.Networks.Serves(s.Home) && s.Networks.Space(network) == s.Home {
		s.markPorts()
	}
}

// noteGone queues a deleted node whose pods have returned faces.
func (s *Stage) noteGone(name string) {
	if s.nodes[name] == nil {
		s.queue.Mark(name)
	}
}

// Take takes nodes in. Those that have blocks keep them, before others get the next.
func (s *Stage) Take(changed map[string]*model.Node) {
	s.came = nil
	for name, m := range changed {
		s.queue.Mark(name)
		n := s.nodes[name]
		if m == nil {
			if n != nil {
				s.remember(n)
				s.leaveHome(n)
				delete(s.nodes, name)
			}
			continue
		}
		if n == nil {
			n = &node{name: name}
			s.nodes[name] = n
		}
		n.model = m
		s.came = append(s.came, n)
	}
	slices.SortFunc(s.came, compare)
	for _, n := range s.came {
		s.keepBlocks(n)
	}
	for name := range changed {
		s.Changed.Changed(name)
	}
}

// Give gives nodes that changed their blocks, after those that pods have faces of are their nodes' again. New addresses come
// after the pods', in Place.
func (s *Stage) Give() {
	for _, n := range s.came {
		s.giveBlocks(n)
		// One that is being deleted serves once its pods are known; those that nodes have are not for them.
		if home := s.home(); home != nil && len(home.Layout.Subnets) > 0 && n.assignedIn(home) {
			s.giveAddresses(home, n)
		}
	}
}

// Lacks reports whether a node that is there lacks anything.
func (s *Stage) Lacks() bool { return len(s.lacking) > 0 }

// Seen are the addresses that a node has in the default Network: those that the controller gave it, whatever its Node object says.
func (s *Stage) Seen(name string) []netip.Addr {
	if n := s.nodes[name]; n != nil {
		return n.addresses
	}
	return nil
}

// home is the default Network; nil when there is none.
func (s *Stage) home() *networks.Network { return s.Networks.Get(s.Home) }

// assignedIn reports whether an address of the Network is written on the node.
func (n *node) assignedIn(home *networks.Network) bool {
	a := n.model.Assigned
	return a != nil && a.NetworkUID == home.Model.UID && len(a.Addresses) > 0
}

// compare orders nodes: those that are there first, and of these those with blocks, older before younger.
func compare(a, b *node) int {
	return cmp.Or(
		first(!a.model.Gone, !b.model.Gone),
		first(a.model.Assigned != nil, b.model.Assigned != nil),
		a.model.Created.Compare(b.model.Created),
		cmp.Compare(a.name, b.name),
	)
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Serves reports whether pods of a node can get faces: its blocks are written on it, so that another controller would
// give it the same. One that has gone gets no new pods.
func (s *Stage) Serves(name string) bool {
	n := s.nodes[name]
	return n != nil && !n.model.Gone && n.model.Assigned != nil && len(s.Faces.Pools(name)) > 0 &&
		slices.Equal(n.model.Assigned.Faces, s.Faces.Blocks(name))
}

// keepBlocks has a node keep the blocks that are written on it.
func (s *Stage) keepBlocks(n *node) {
	if n.model.Assigned != nil {
		s.Faces.Keep(n.name, n.model.Assigned.Faces)
	}
}

// giveBlocks gives a node a block of each range: the one that is written on it, else the next. A node without a Node keeps what
// it has, here and in giveAddresses, and gets nothing new.
func (s *Stage) giveBlocks(n *node) {
	s.keepBlocks(n)
	if n.model.Gone {
		return
	}
	for _, full := range s.Faces.Give(n.name) {
		s.say(n, model.Problemf(model.ReasonNoFaces,
			"no block is free in %s: pods of this node's Networks cannot start; the range is for fewer nodes (faceCIDRs of the AtollConfig)", full))
	}
}

// Place gives nodes their place in the default Network, and forgets those that have gone.
func (s *Stage) Place() {
	home := s.home()
	if !s.Networks.Serves(s.Home) {
		home = nil
	}
	for name := range s.queue.Marked() {
		if s.nodes[name] == nil {
			s.forget(name)
		}
	}
	var order []*node
	for name := range s.queue.Take() {
		if n := s.nodes[name]; n != nil {
			order = append(order, n)
		}
	}
	// Whoever has an address keeps it: a default Network that is being deleted serves only once its pods are known, so that
	// after a restart nodes have taken none yet.
	has := func(n *node) bool { return home != nil && n.assignedIn(home) }
	slices.SortFunc(order, func(a, b *node) int { return cmp.Or(first(has(a), has(b)), compare(a, b)) })
	for _, n := range order {
		s.place(home, n)
	}
}

// forget takes what a node had that has gone; its faces once no pod holds one of them.
func (s *Stage) forget(name string) {
	s.ports.Mark(name)
	delete(s.lacking, name)
	if s.Faces.Forget(name) {
		s.queue.MarkAll(s.lacking)
	}
}

// remember notes the addresses of a node that goes. Its pods and its kubelet often do not: a Node that is made again under its
// name gets them back, unless another one has needed them. They are given out last. Of more than maxFormer those are forgotten
// that went first.
func (s *Stage) remember(n *node) {
	if len(n.addresses) == 0 {
		return
	}
	s.gone++
	s.former[n.name] = formerAddresses{n.network, n.subnet, n.addresses, s.gone}
	for len(s.former) > maxFormer {
		oldest := n.name
		for name, f := range s.former {
			if f.gone < s.former[oldest].gone {
				oldest = name
			}
		}
		delete(s.former, oldest)
	}
}

// leaveHome gives a node's addresses in the default Network back.
func (s *Stage) leaveHome(n *node) {
	if home := s.home(); home != nil && home.Model.UID == n.network && len(n.addresses) > 0 {
		s.Subnets.Release(s.Home, n.subnet, n.addresses, nb.NodeOwner(n.name))
		s.AddressesChanged.Changed(s.Home)
	}
	n.network, n.subnet, n.addresses = "", "", nil
}

// place gives a node its addresses and its port in the default Network, which is nil while it does not serve, and writes down what
// it has.
func (s *Stage) place(home *networks.Network, n *node) {
	delete(s.lacking, n.name)
	s.giveBlocks(n)
	have := model.NodeNetwork{NodeUID: n.model.UID, Faces: s.Faces.Blocks(n.name)}
	if home != nil {
		s.giveAddresses(home, n)
	} else {
		s.leaveHome(n)
	}
	if len(n.addresses) > 0 {
		layout := home.Layout.Subnets[0]
		have.Network, have.NetworkUID, have.MAC = home.Name, home.Model.UID, compile.NodeMAC(n.name)
		for i, r := range layout.Ranges {
			have.Addresses = append(have.Addresses, netip.PrefixFrom(n.addresses[i], r.CIDR.Bits()))
			have.Gateways = append(have.Gateways, r.Gateway)
		}
		have.Flat = s.Networks.FlatRanges()
		n.have = have
	}
	s.ports.Mark(n.name)
	if !n.model.Gone && (n.model.Assigned == nil || !reflect.DeepEqual(*n.model.Assigned, have)) {
		s.Sink.WriteNode(n.name, n.model.UID, have)
	}
}

// giveAddresses takes the node's addresses of the default Network's first subnet: what it has, what is written on it,
// or the next.
func (s *Stage) giveAddresses(home *networks.Network, n *node) {
	subnet, holder := home.Layout.Subnets[0].Name, nb.NodeOwner(n.name)
	if n.network != home.Model.UID || n.subnet != subnet {
		s.leaveHome(n)
	}
	former := n.addresses
	if a := n.model.Assigned; len(former) == 0 && a != nil && a.NetworkUID == home.Model.UID {
		for _, p := range a.Addresses {
			former = append(former, p.Addr())
		}
	}
	if f, was := s.former[n.name]; was && len(former) == 0 && f.network == home.Model.UID && f.subnet == subnet {
		former = f.addresses
	}
	delete(s.former, n.name)
	pools := s.Subnets.Pools(s.Home, subnet)
	var taken []netip.Addr
	for _, pool := range pools {
		i := slices.IndexFunc(former, pool.Prefix().Contains)
		if i >= 0 {
			if outcome, _ := pool.Keep(former[i], holder); outcome == alloc.Taken {
				taken = append(taken, former[i])
				continue
			}
		}
		a, ok := netip.Addr{}, false
		if !n.model.Gone {
			a, ok = s.Spare.Next(pool, holder, nil)
		}
		if !ok {
			ledger.Release(pools, taken, holder)
			n.network, n.subnet, n.addresses = "", "", nil
			s.say(n, model.Problemf(model.ReasonSubnetFull,
				"no address is free in %s of Network %q for the node: it does not reach pods of other nodes", pool.Prefix(), home.Name))
			return
		}
		taken = append(taken, a)
	}
	if !slices.Equal(taken, n.addresses) {
		s.AddressesChanged.Changed(s.Home)
	}
	n.network, n.subnet, n.addresses = home.Model.UID, subnet, taken
}

// say tells a node's owner once what it lacks; it is tried again when something comes free.
func (s *Stage) say(n *node, p model.Problem) {
	if n.model.Gone {
		return
	}
	s.lacking[n.name] = struct{}{}
	if n.told.uid != n.model.UID || n.told.problem != p {
		n.told.uid, n.told.problem = n.model.UID, p
		s.Sink.Event(n.model.Ref(), p)
	}
}

// Refused says why the database does not accept the rows of a node.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	if n := s.nodes[owner.Name]; n != nil {
		s.say(n, problem)
	}
}
