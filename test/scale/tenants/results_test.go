package main

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/lab"
)

func TestPrint(t *testing.T) {
	r := results{
		PodsPerNetwork: 5, Nodes: 50, Processors: 2,
		Sizes: []size{
			{Tenants: 50, Made: 49, RowsEach: 100, FlowsEach: 300, ReadySeconds: 2, CarriedSeconds: 3},
			{Tenants: 100, Made: 50, RowsEach: 100.5, FlowsEach: 330, ReadySeconds: 2, CarriedSeconds: 4},
		},
		Consumers: consumers{Consumers: 20, Seconds: 1.5, NorthdEach: 5, MoreSeconds: []float64{0.3, 0.1, 0.2}, MoreNorthd: 51, Nodes: []held{
			{
				PodOf: "a consumer", Before: nodeUse{Memory: lab.Memory{ResidentMB: 20, ProportionalMB: 10}},
				After: nodeUse{Memory: lab.Memory{ResidentMB: 61, ProportionalMB: 11, MostMB: 70}, Flows: 7},
			},
			{PodOf: "the provider", After: nodeUse{Memory: lab.Memory{ResidentMB: 62}}, MoreMilliseconds: 2.5},
		}},
		Joined: joined{Networks: 4, Node: held{After: nodeUse{Datapaths: 12}}},
		Edges: edges{Networks: 90, Kinds: []edge{
			{
				What: "by face", Turns: []turn{
					{RowsSeconds: 3, Northd: 70, Others: 0.5}, {RowsSeconds: 1, Northd: 60, Others: 1.5}, {RowsSeconds: 2, Northd: 50, Node: 1},
				},
			},
			{What: "by face", Ends: true, Turns: []turn{{NodeSeconds: 4}}},
		}},
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"50 tenants more, to 100", "100.0, 100.5", "300.0, 330.0", "one more, after 20 (3 times)", "median 0.20 s, at most 0.30 s",
		"61.0 MB, at most 70.0; 20.0 before (its share of pages: 11.0, 10.0)", "2.5 ms", "12 datapaths",
		"one more among 90: by face", "rows 2.00 s", "(median of 3)", "northd 60 ms, ovn-controller 0.0 ms", "1.5 of 2",
		"one less among 90: by face", "on its node 4.00 s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
	// Of two figures one is not linear, of two more one is too long, and a consumer's node holds too much; the provider's has no target.
	if missed, met := strings.Count(b.String(), "MISSED"), strings.Count(b.String(), " met "); missed != 3 || met != 2 {
		t.Errorf("%d are missed and %d met:\n%s", missed, met, b.String())
	}
}

func TestCells(t *testing.T) {
	const said = "idl-cells-OVN_Southbound:12345 idl-cells-Open_vSwitch:900 lflow-cache-size-KB:1"
	if got, err := cells(said); err != nil || got != 12345 {
		t.Errorf("%d, error %v", got, err)
	}
	if got, err := cells("idl-cells-Open_vSwitch:900"); err == nil {
		t.Errorf("%d, want an error", got)
	}
}

func TestCountFlows(t *testing.T) {
	const said = "OFPST_FLOW reply (OF1.5) (xid=0x2):\n" +
		" priority=100,in_port=1 actions=load:0x1->OXM_OF_METADATA[],resubmit(,8)\n" +
		" table=8, priority=100,metadata=0x1,vlan_tci=0x1000/0x1000 actions=drop\n" +
		" table=9, priority=50,reg14=0x2,metadata=0x1f actions=resubmit(,10)\n" +
		" table=9, priority=0,metadata=0x1 actions=drop\n"
	if flows, datapaths := countFlows(said); flows != 4 || datapaths != 2 {
		t.Errorf("%d flows of %d datapaths, want 4 of 2", flows, datapaths)
	}
}
