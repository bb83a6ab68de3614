package verdicts

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/inspected"
)

// counted are what the agents of two nodes have counted in the judged world.
func counted() []model.NodeVerdicts {
	row := func(network, policy, rule, verdict string, packets uint64, pods map[string]uint64) model.VerdictCount {
		return model.VerdictCount{
			Network: network, Policy: policy, Direction: "Ingress", Rule: rule, Verdict: verdict, Packets: packets, Pods: pods,
		}
	}
	egress := row("red", nb.Isolation, "", "drop", 2, map[string]uint64{"red/web-2": 2})
	egress.Direction = "Egress"
	return []model.NodeVerdicts{
		{Node: "n1", Verdicts: []model.VerdictCount{
			row("blue", nb.OwnNode, "", "allow", 12, nil),
			row("red", "NetworkPolicy/red/db-from-web", "0", "allow", 0, nil),
			row("red", nb.Isolation, "", "drop", 7, map[string]uint64{"red/web-0": 7}),
			egress,
		}},
		{Node: "n2", Verdicts: []model.VerdictCount{
			row("red", "NetworkPolicy/red/db-from-web", "0", "allow", 1234, nil),
			row("red", "NetworkPolicy/red/db-from-web", nb.RuleIsolation, "drop", 3, map[string]uint64{"red/web-1": 3}),
			row("red", nb.Isolation, "", "drop", 0, nil),
			row("red", "ClusterNetworkPolicy/no-telnet", "0", "drop", 1, nil),
		}},
	}
}

func TestVerdictsGolden(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query   Query
		nodes   []model.NodeVerdicts
		unknown string
	}{
		"all":       {nodes: counted()},
		"network":   {nodes: counted(), query: Query{Network: "blue"}},
		"policy":    {nodes: counted(), query: Query{Policy: "red/db-from-web"}},
		"cluster":   {nodes: counted(), query: Query{Policy: "no-telnet"}},
		"drops":     {nodes: counted(), query: Query{DropsOnly: true}},
		"none":      {nodes: counted(), query: Query{Network: "green"}},
		"unknown":   {nodes: counted(), unknown: "nobody answers"},
		"no-agents": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVerdicts(test.nodes, test.query)
			if v.Unknown = test.unknown; v.Unknown == "" {
				v.explain(inspected.JudgedWorld(t).Objects)
			}
			inspected.Golden(t, "verdicts-"+name, v)
		})
	}
}
