package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/cli/connectivity"
)

// aReport has a path of each verdict.
func aReport() connectivity.Report {
	return connectivity.Report{
		Image: "registry.example.com/atoll:v1", Nodes: []string{"n1", "n2"}, Seconds: 31.4,
		Results: []connectivity.Result{
			{
				From: "kubelet n1", Path: "pod red/near starts, and an HTTP probe finds it", Expected: "Ready", Seen: "Ready", Verdict: connectivity.OK,
				Seconds: 4.21,
			},
			{
				From: "red/near", Path: "pod, same node, TCP", Expected: "red/server answers", Seen: "red/server answers", Verdict: connectivity.OK,
				Seconds: 0.0042,
			},
			{
				From: "red/near", Path: "face of the other Network's pod", Expected: "nobody answers", Seen: "blue/lonely answers",
				Verdict: connectivity.Failed, Seconds: 0.087,
				Next: "atoll explain atoll-connectivity-red/near 100.64.2.23 --port 8080",
			},
			{
				From: "red/near", Path: "pod, another node, TCP", Expected: "red/far answers", Seen: "there is one node",
				Verdict: connectivity.NotTried,
			},
		},
	}
}

// TestConnectivityPrintsTables compares what people read with testdata/connectivity.txt: with a failure, kept, and all well.
func TestConnectivityPrintsTables(t *testing.T) {
	t.Parallel()
	failed, kept, well := aReport(), aReport(), aReport()
	kept.Kept = true
	well.Results = well.Results[:2]
	var out bytes.Buffer
	for _, r := range []connectivity.Report{failed, kept, well} {
		if err := printConnectivity(&out, r, formatTable); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	file := filepath.Join("testdata", "connectivity.txt")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestConnectivityPrintsJSON: programs get the whole report back, and the summary.
func TestConnectivityPrintsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := printConnectivity(&out, aReport(), formatJSON); err != nil {
		t.Fatal(err)
	}
	var got struct {
		connectivity.Report
		Summary string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(aReport(), got.Report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := "FAIL: 2 paths as expected, 1 not, 1 not tried, on n1 and n2, after 31s"; got.Summary != want {
		t.Errorf("got %q, want %q", got.Summary, want)
	}
}
