package main

import (
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	r := results{
		PodsPerNetwork: 5, Nodes: 50, Processors: 2,
		Sizes: []size{
			{Tenants: 50, Made: 49, RowsEach: 100, FlowsEach: 300, ReadySeconds: 2, CarriedSeconds: 3},
			{Tenants: 100, Made: 50, RowsEach: 100.5, FlowsEach: 330, ReadySeconds: 2, CarriedSeconds: 4},
		},
		Consumers: consumers{Consumers: 20, Seconds: 1.5, NorthdEach: 5, MoreSeconds: []float64{0.3, 0.1, 0.2}},
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"50 tenants more, to 100", "100.0, 100.5", "300.0, 330.0", "one more, after 20 (3 times)", "median 0.20 s, at most 0.30 s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "MISSED") != 1 {
		t.Errorf("one of the two is not linear:\n%s", b.String())
	}
}
