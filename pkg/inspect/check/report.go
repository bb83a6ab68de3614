package check

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
)

// Report is what a check found.
type Report struct {
	// Networks and Pods that were looked at, and Rows that they want of the northbound database.
	Networks int `json:"networks"`
	Pods     int `json:"pods"`
	Rows     int `json:"rows"`
	// Refused pods have no port because they may not have one: that is as it should be.
	Refused int `json:"refused"`
	// Nodes whose agents have looked at them, and Silent those that have not answered. NodesUnasked is why no node was looked at.
	Nodes        int           `json:"nodes,omitempty"`
	Silent       []NodeProblem `json:"silent,omitempty"`
	NodesUnasked string        `json:"nodesUnasked,omitempty"`
	// Repaired are what agents have put right, and Problems what they could not do. More is how many differences of nodes there are
	// beside those that are told.
	Repaired []drift.Difference `json:"repaired,omitempty"`
	Problems []NodeProblem      `json:"problems,omitempty"`
	More     int                `json:"more,omitempty"`
	// Differences are sorted by place, in the order of a pod's way, then by owner.
	Differences []drift.Difference `json:"differences"`
}

// Whole reports whether all was looked at that was to be.
func (r Report) Whole() bool { return len(r.Silent) == 0 && r.NodesUnasked == "" }

// Verdict is the report in one line, with what to do next when something differs.
func (r Report) Verdict() string {
	unbound := 0
	for _, d := range r.Differences {
		if d.Kind == drift.NotBound {
			unbound++
		}
	}
	line := model.Count(len(r.Differences)+r.More-unbound, "difference")
	if unbound > 0 {
		line += " and " + model.Count(unbound, "port") + " not bound"
	}
	line += fmt.Sprintf(" in %s, %s, %s", model.Count(r.Networks, "Network"), model.Count(r.Pods, "pod"), model.Count(r.Rows, "row"))
	if r.Nodes > 0 {
		line += ", " + model.Count(r.Nodes, "node")
	}
	if len(r.Repaired) > 0 {
		line += fmt.Sprintf("; %d repaired", len(r.Repaired))
	}
	if len(r.Silent) > 0 {
		line += "; " + model.Count(len(r.Silent), "node") + " not looked at"
	}
	if r.NodesUnasked != "" {
		line += "; no node was looked at"
	}
	if r.Refused > 0 {
		line += fmt.Sprintf("; %s refused (their Events say why)", model.Count(r.Refused, "pod"))
	}
	if next := r.next(); next != "" {
		line += ". Next: " + next
	}
	return line
}

// next says what to look at: the first place on a pod's way where something differs.
func (r Report) next() string {
	if len(r.Differences) == 0 {
		return ""
	}
	first := slices.MinFunc(r.Differences, drift.Compare)
	if i := slices.IndexFunc(r.Differences, func(d drift.Difference) bool { return d.Node != "" }); i >= 0 &&
		first.Place == drift.PlaceSouthbound {
		first = r.Differences[i] // What is wrong on a node explains that its ports are not bound.
	}
	switch first.Place {
	case drift.PlaceAPI, drift.PlaceNorthbound:
		return "does a controller lead (kubectl -n atoll-system get lease atoll-controller), and what does its log say?"
	case drift.PlaceSouthbound:
		return "do ovn-northd, and on the pod's node ovn-controller and atoll-agent, run, and what do their logs say?"
	case drift.PlaceNode:
		if first.Node != "" && len(r.Problems)+len(r.Repaired) == 0 {
			return "atoll check --repair has the node's agent put it right; atoll-agent's log there says why it has not"
		}
		return "what does atoll-agent's log on the node say?"
	}
	return ""
}
