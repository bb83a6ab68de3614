package flows

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Together are flows that differ by their minutes alone as one, with the last time, in its order.
func Together(all []api.Flow) []api.Flow {
	known := map[api.Flow]int{}
	var out []api.Flow
	for _, f := range all {
		key := f
		key.Minute, key.Last, key.Connections, key.Packets, key.Bytes = api.Flow{}.Minute, api.Flow{}.Last, 0, 0, 0
		i, there := known[key]
		if !there {
			known[key] = len(out)
			out = append(out, f)
			continue
		}
		has := &out[i]
		has.Connections, has.Packets, has.Bytes = has.Connections+f.Connections, has.Packets+f.Packets, has.Bytes+f.Bytes
		if f.Last.After(has.Last.Time) {
			has.Minute, has.Last = f.Minute, f.Last
		}
	}
	slices.SortStableFunc(out, func(a, b api.Flow) int { return a.Last.Compare(b.Last.Time) })
	return out
}

// EndWords name an end of a flow: as `atoll explain` takes it, where it can.
func EndWords(e api.FlowEnd) string {
	name := e.Name
	switch e.Kind {
	case api.FlowService:
		name = "svc/" + name
	case api.FlowNode, api.FlowGateway, api.FlowRouter:
		name = e.Kind + "/" + name
	case api.FlowOutside:
		return "outside " + e.Address
	}
	switch {
	case name == "" && e.Address == "":
		return "several"
	case name == "":
		return e.Address
	}
	return name
}

// PortWords are protocol and port; empty where neither is kept.
func PortWords(f api.Flow) string {
	if f.Port == 0 {
		return f.Protocol
	}
	return fmt.Sprintf("%s %d", f.Protocol, f.Port)
}

// LookAtAgents is what to do about agents that do not answer.
const LookAtAgents = "kubectl -n " + snapshot.AgentNamespace + " get pods -o wide -l " + snapshot.AgentLabel +
	", and look at the log of those"

// Unknown returns an error if an answer holds no flow and no node answered completely: then nobody knows how many flows there are.
func Unknown(s api.FlowStatus, flows int) error {
	if missing := Missing(s); s.Nodes == 0 && flows == 0 && missing != "" {
		return fmt.Errorf("nothing is known: %s", missing)
	}
	return nil
}

// Missing says what an answer about flows is without; empty when nothing is missing.
func Missing(s api.FlowStatus) string {
	var parts []string
	for _, n := range s.Silent {
		parts = append(parts, fmt.Sprintf("flows of node %s: %s", n.Node, snapshot.Printable(n.Why)))
	}
	if s.Others > 0 {
		parts = append(parts, fmt.Sprintf("flows of %s that have no pods of it now", model.Count(s.Others, "more node")))
	}
	if s.Cut {
		parts = append(parts, "older flows, since there are too many: ask for less (--since, NETWORK, -n, --pod)")
	}
	if len(parts) == 0 {
		return ""
	}
	said := "not all is told. Missing are " + strings.Join(parts, "; ")
	if len(s.Silent) > 0 {
		said += ". Next: " + LookAtAgents
	}
	return said
}
