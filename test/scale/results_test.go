package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/bench/harness"
)

func example() results {
	at := func(ports int, rate float64) size {
		burst := func(rate float64) series { return series{Series: harness.Series{PodsPerSecond: rate}} }
		return size{
			Ports: ports, Paced: series{Series: harness.Series{P50: 4, P99: 9}}, Bursts: []series{burst(rate + 50), burst(rate), burst(rate - 50)},
		}
	}
	return results{
		Pods: 50000, Networks: 1000, Nodes: 100, BurstOf: 500, Processors: 2,
		Sizes:   []size{at(0, 700), at(26000, 650), at(50000, 500)},
		Fill:    []point{{Ports: 500, PodsPerSecond: 700}, {Ports: 49500, PodsPerSecond: 600}},
		Known:   known{New: arrival{RowsPerSecond: 4000}, Annotated: arrival{RowsPerSecond: 9000}, Raw: 10000},
		Census:  []census{{Networks: 1, Rows: 11}, {Networks: 500, Rows: 3504}, {Networks: 1000, Rows: 7004}},
		OfNodes: ofNodesCensus{Rows: 200, Networks: 1},
	}
}

func TestTableJudges(t *testing.T) {
	var out bytes.Buffer
	if err := example().Print(&out); err != nil {
		t.Fatal(err)
	}
	for what, verdict := range map[string]string{
		"rows, objects known":           "met",
		"  same, and their annotations": "MISSED",
		"burst of 500 onto 0":           "met",
		"burst of 500 onto 26000":       "met",
		"burst of 500 onto 50000":       "MISSED",
		"10 pods/s onto 50000":          "met",
		"rows per Network":              "met",
		"rows of Networks for nodes":    "met",
	} {
		found := false
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, what+"  ") {
				found = strings.Contains(line, " "+verdict+" ")
			}
		}
		if !found {
			t.Errorf("%q is not %s in:\n%s", what, verdict, out.String())
		}
	}
}

func TestRowsPerNetwork(t *testing.T) {
	r := example()
	if each, linear := r.rowsPerNetwork(); each != 7 || !linear {
		t.Errorf("%v rows per Network, linear %v; want 7, true", each, linear)
	}
	r.Census[1].Rows += 100
	if _, linear := r.rowsPerNetwork(); linear {
		t.Error("rows that do not grow evenly are said to be linear")
	}
}

func TestChangedRows(t *testing.T) {
	a, b, c := &nb.LogicalSwitch{UUID: "a", Name: "a"}, &nb.LogicalSwitch{UUID: "b", Name: "b"}, &nb.LogicalSwitch{UUID: "c", Name: "c"}
	of := func(kind string, rows ...*nb.LogicalSwitch) owned {
		o := owned{kind: {}}
		for _, r := range rows {
			o[kind][nb.RefOf(r)] = r
		}
		return o
	}
	other := &nb.LogicalSwitch{UUID: "b", Name: "other", Ports: []string{"p"}}
	for _, tt := range []struct {
		had, now owned
		want     int
	}{
		{of(ofNetworks, a, b), of(ofNetworks, a, b), 0},
		{of(ofNetworks, a, b), of(ofNetworks, a, &nb.LogicalSwitch{UUID: "b", Name: "b", Ports: []string{"p"}}), 0},
		{of(ofNetworks, a, b), of(ofNetworks, a, other), 1},
		{of(ofNetworks, a, b), of(ofNetworks, other, c), 3},
		{of(ofNetworks), of(ofNodes, a), 0},
	} {
		if got := tt.had.changed(tt.now, ofNetworks); got != tt.want {
			t.Errorf("from %v to %v %d rows of Networks changed, want %d", tt.had, tt.now, got, tt.want)
		}
	}
}

func TestPlotIsXML(t *testing.T) {
	d := xml.NewDecoder(bytes.NewReader(example().plot()))
	circles := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 9 {
		t.Errorf("%d dots, want one for each of three figures at three sizes", circles)
	}
}

func TestRoundUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.7: 1, 1: 1, 1.5: 2, 2.2: 2.5, 26: 50, 50000: 50000, 51: 100} {
		if got := roundUp(v); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", v, got, want)
		}
	}
	if got := number(50000); got != "50,000" {
		t.Errorf("number(50000) = %s", got)
	}
}
