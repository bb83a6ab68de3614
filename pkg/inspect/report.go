package inspect

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// Report is what a check found.
type Report struct {
	// Networks and Pods that were looked at, and Rows that they want of the northbound database.
	Networks int `json:"networks"`
	Pods     int `json:"pods"`
	Rows     int `json:"rows"`
	// Refused pods have no port because they may not have one: that is as it should be.
	Refused int `json:"refused"`
	// Differences are sorted by place, in the order of a pod's way, then by owner.
	Differences []Difference `json:"differences"`
}

// Verdict is the report in one line, with what to do next when something differs.
func (r Report) Verdict() string {
	unbound := 0
	for _, d := range r.Differences {
		if d.Kind == NotBound {
			unbound++
		}
	}
	line := model.Count(len(r.Differences)-unbound, "difference")
	if unbound > 0 {
		line += " and " + model.Count(unbound, "port") + " not bound"
	}
	line += fmt.Sprintf(" in %s, %s, %s", model.Count(r.Networks, "Network"), model.Count(r.Pods, "pod"), model.Count(r.Rows, "row"))
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
	first := slices.MinFunc(r.Differences, compareDifferences)
	switch first.Place {
	case PlaceAPI, PlaceNorthbound:
		return "does a controller lead (kubectl -n atoll-system get lease atoll-controller), and what does its log say?"
	case PlaceSouthbound:
		return "do ovn-northd, and on the pod's node ovn-controller and atoll-agent, run, and what do their logs say?"
	case PlaceNode:
		return "what does atoll-agent's log on the node say?"
	}
	return ""
}
