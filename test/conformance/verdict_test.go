package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	list := exceptions{{Spec: "HostPort", Reason: "no host ports"}, {Spec: "gone", Reason: "was renamed"}}
	all := []string{"[sig-network] DNS works", "[sig-network] HostPort works", "[sig-network] Services work", "[sig-node] other"}
	for _, test := range []struct {
		name     string
		list     exceptions
		outcomes []outcome
		ok       bool
		// shows are parts of the summary, in order.
		shows []string
	}{
		{
			name:     "what is no exception passes and what is one fails",
			list:     list[:1],
			outcomes: []outcome{{spec: all[0], passed: true}, {spec: all[1], failure: "refused"}, {spec: all[2], passed: true}},
			ok:       true,
			shows:    []string{"failed as said", all[1], "no host ports", "default       3       2              1                   0"},
		},
		{
			name:     "a spec fails without a reason",
			list:     list[:1],
			outcomes: []outcome{{spec: all[0], failure: "no answer\n\n   at all"}, {spec: all[1], failure: "refused"}, {spec: all[2], passed: true}},
			shows:    []string{"failed unexpectedly", all[0], "no answer at all", "default       3       1              1                   1"},
		},
		{
			name:     "an exception passes",
			list:     list[:1],
			outcomes: []outcome{{spec: all[0], passed: true}, {spec: all[1], passed: true}, {spec: all[2], passed: true}},
			shows: []string{
				"passed, but is an exception", all[1], "remove it: no host ports", "default       3       3              0                   0",
			},
		},
		{
			name:     "a spec that was chosen did not run",
			outcomes: []outcome{{spec: all[0], passed: true}, {spec: all[1], passed: true}},
			shows:    []string{all[2], "it did not run", "default       3       2              0                   1"},
		},
		{
			name:     "an exception of no spec",
			list:     list[1:],
			outcomes: []outcome{{spec: all[0], passed: true}, {spec: all[1], passed: true}, {spec: all[2], passed: true}},
			shows:    []string{`no spec is named "gone" any more`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := judge(defaultNetwork, all[:3], all, test.outcomes, test.list)
			v.took = time.Minute
			var out bytes.Buffer
			if ok := summarise(&out, []verdict{v}); ok != test.ok {
				t.Errorf("as expected: %t, want %t", ok, test.ok)
			}
			rest := out.String()
			for _, words := range test.shows {
				_, after, found := strings.Cut(rest, words)
				if !found {
					t.Fatalf("does not show %q in its place:\n%s", words, out.String())
				}
				rest = after
			}
		})
	}
}

func TestSummaryOfNothingIsNotWell(t *testing.T) {
	if summarise(&bytes.Buffer{}, nil) || summarise(&bytes.Buffer{}, []verdict{{network: vpcNetwork}}) {
		t.Error("a run without a spec counts as well")
	}
}

func TestExceptionFiles(t *testing.T) {
	for _, n := range []network{defaultNetwork, vpcNetwork, joinedNetworks, flatNetworks} {
		if _, err := exceptionsOf(n); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"- spec: x", "- reason: y", "- {spec: x, reason: y, more: z}"} {
		if _, err := parseExceptions([]byte(bad)); err == nil {
			t.Errorf("takes %q", bad)
		}
	}
}

func TestParseReport(t *testing.T) {
	for _, test := range []struct {
		file string
		want []outcome
		fail string
	}{
		{
			file: "testdata/report.json",
			want: []outcome{
				{spec: "[sig-network] DNS should work [Conformance]", took: 1500 * time.Millisecond, passed: true},
				{spec: "[sig-network] Services should work", took: 5 * time.Minute, failure: "timed out after 300s"},
				{spec: "[sig-node] Probes should skip", failure: "it skipped itself: needs two nodes"},
				{spec: "[sig-node] Probes should panic", failure: "panicked: nil pointer"},
			},
		},
		{file: "testdata/broken.json", fail: "run SynchronizedBeforeSuite: failed: nodes are not ready"},
	} {
		data, err := os.ReadFile(test.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseReport(data)
		if test.fail != "" {
			if err == nil || !strings.Contains(err.Error(), test.fail) {
				t.Errorf("%s: error %v, want %q", test.file, err, test.fail)
			}
			continue
		}
		if err != nil || len(got) != len(test.want) {
			t.Fatalf("%s: %v, %+v", test.file, err, got)
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: got %+v, want %+v", test.file, got[i], test.want[i])
			}
		}
	}
}
