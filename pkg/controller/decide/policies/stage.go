// Package policies decides which rows NetworkPolicies and ClusterNetworkPolicies need, and which port groups each pod's port is in.
//
//	policy --mentions--> selector --selects--> pods with ports, by Network
//	policy in a Network --needs--> port groups <--places-- those pods
//	                               address sets <--places-- pods of the Networks that it has to do with
//
// A policy has rows in a Network while it selects a pod there. It has them by three steps, between which others write down the ports
// of pods, so that at no moment a packet may pass that both the old policies and the new ones forbid:
//
//	Decide: compiles policies, and makes the port groups that they need ---> ports join these groups
//	Write:  writes ACLs, and removes port groups that nobody needs ---> ports leave these groups
//	Committed: the database holds the ACLs: the groups go that only the former ones needed ---> ports leave these groups
package policies

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// Stage decides about policies. Make one with New.
type Stage struct {
	// GroupsChanged tells of pods whose port groups may be others, JudgingChanged of Networks where policies begin to judge pods,
	// or end.
	GroupsChanged  *pass.Topic[model.PodKey]
	JudgingChanged *pass.Topic[string]

	cluster *cluster.Cluster
	world   World
	graph   *graph.Graph

	policies map[model.PolicyKey]*policy
	// subjects finds those selectors of a pod that are subjects, watched the others that policies need in its Network, and selectors all by
	// their texts.
	subjects  *match.Index
	watched   map[string]*match.Index
	selectors map[string]*selector
	// members are the pods with ports, residents those of each Network.
	members   map[model.PodKey]*member
	residents pass.Index[string, *member]
	groups    map[groupKey]*group
	// shares counts those groups that are of one tenant's pods (compile.ShareGroup, compile.ShareNamedGroup).
	shares int
	// remote are the groups of a Network with pods of others in them, served the Networks that may have other neighbours than those of which
	// neighbours tells.
	remote     pass.Index[string, groupKey]
	served     *pass.Queue[string]
	neighbours map[string]neighbours
	// blocks are those that a Network has groups for, by its UID.
	blocks map[string]*blocks
	// unsettled policies are compiled in a Network when the moved pods have been looked at; what came of it waits to be written.
	unsettled *pass.Queue[placement]
	moved     *pass.Queue[model.PodKey]
	compiled  []compiled
	// doors are those that policies were compiled with.
	doors []compile.Door
	// asking are the policies with rules that mean nodes, or blocks, which may. hosts are the nodes, ordered those that policies are compiled
	// with, and changed the names of those that came, changed or went.
	asking  map[model.PolicyKey]struct{}
	hosts   map[string]compile.Host
	ordered []compile.Host
	changed *pass.Queue[string]
	// moves: a node may have other addresses in the default Network than hosts has.
	moves bool
	// logged counts the policies that log, by whom they share the bound of it with.
	logged map[string]int
}

// New makes the stage of a cluster without policies, which decides in one stage and writes in that one and later.
func New(c *cluster.Cluster, world World, g *graph.Graph, stage pass.Stage) *Stage {
	s := &Stage{
		GroupsChanged: pass.NewTopic[model.PodKey](stage), JudgingChanged: pass.NewTopic[string](stage),
		cluster: c, world: world, graph: g,
		policies: map[model.PolicyKey]*policy{}, subjects: match.NewIndex(), watched: map[string]*match.Index{},
		selectors: map[string]*selector{},
		members:   map[model.PodKey]*member{}, residents: pass.Index[string, *member]{}, groups: map[groupKey]*group{},
		blocks: map[string]*blocks{},
		remote: pass.Index[string, groupKey]{}, served: pass.NewQueue[string](stage), neighbours: map[string]neighbours{},
		unsettled: pass.NewQueue[placement](stage), moved: pass.NewQueue[model.PodKey](stage),
		asking: map[model.PolicyKey]struct{}{}, hosts: map[string]compile.Host{}, changed: pass.NewQueue[string](stage), logged: map[string]int{},
	}
	world.PortChanged.Follow(stage, s.moved.Mark)
	world.ServedChanged.Follow(stage, func(network string) {
		s.served.Mark(network)
		s.recompileIn(network)
	})
	world.AnswersChanged.Follow(stage, s.recompileIn)
	c.NodeChanged.Follow(stage, s.changed.Mark)
	world.SeenChanged.Follow(stage, func(string) { s.moves = true })
	return s
}

// Decide takes policies in, compiles those that changed or whose pods did, and makes the port groups that they need. Write follows it.
func (s *Stage) Decide(changed map[model.PolicyKey]*model.Policy) {
	s.take(changed)
	for key := range s.moved.Take() {
		s.settle(key)
	}
	s.lookAtNeighbours()
	s.lookAround()
	s.compileUnsettled()
}
