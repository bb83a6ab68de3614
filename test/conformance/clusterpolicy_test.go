package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const printedTests = `=== RUN   TestClusterNetworkPolicy
    apply.go:1: Creating a Namespace
=== RUN   TestClusterNetworkPolicy/CNPAdminTierGress
=== RUN   TestClusterNetworkPolicy/CNPAdminTierGress/Should_support_an_'allow'_policy
=== RUN   TestClusterNetworkPolicy/CNPAdminTierPriorityField
=== RUN   TestClusterNetworkPolicy/CNPBaselineTierGress
--- FAIL: TestClusterNetworkPolicy (61.20s)
    --- FAIL: TestClusterNetworkPolicy/CNPAdminTierGress (12.50s)
        --- PASS: TestClusterNetworkPolicy/CNPAdminTierGress/Should_support_an_'allow'_policy (0.50s)
        --- FAIL: TestClusterNetworkPolicy/CNPAdminTierGress/Should_support_a_'deny'_policy (6.00s)
        --- FAIL: TestClusterNetworkPolicy/CNPAdminTierGress/Should_support_a_'pass'_policy (6.00s)
    --- PASS: TestClusterNetworkPolicy/CNPAdminTierPriorityField (48.00s)
    --- SKIP: TestClusterNetworkPolicy/CNPBaselineTierGress (0.00s)
FAIL
`

func TestParseTests(t *testing.T) {
	got, whole := parseTests(printedTests)
	want := []outcome{
		{
			spec: "[network-policy-api] CNPAdminTierGress", took: 12500 * time.Millisecond,
			failure: "Should_support_a_'deny'_policy, Should_support_a_'pass'_policy",
		},
		{spec: "[network-policy-api] CNPAdminTierPriorityField", took: 48 * time.Second, passed: true},
		{spec: "[network-policy-api] CNPBaselineTierGress", failure: "it skipped itself"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" || !whole {
		t.Errorf("whole %t (-want +got):\n%s", whole, diff)
	}
	begun, _, _ := strings.Cut(printedTests, "--- FAIL: TestClusterNetworkPolicy (")
	if got, whole := parseTests(begun + "panic: test timed out"); whole || len(got) != 0 {
		t.Errorf("of tests that came to no end: %v, whole %t", got, whole)
	}
}

func TestPartsAreShownWhenTheyBegin(t *testing.T) {
	var out bytes.Buffer
	w := &partWatcher{out: &out}
	for piece := range slices.Chunk([]byte(printedTests), 7) {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), clusterPolicyPrefix+"CNP"); got != 4 {
		t.Errorf("%d parts are shown:\n%s", got, out.String())
	}
}

func TestExceptionsOfEitherKindOfTests(t *testing.T) {
	list := exceptions{{Spec: "[sig-network] DNS", Reason: "a"}, {Spec: clusterPolicyPrefix + "CNPAdminTierGress", Reason: "b"}}
	if got := list.ofClusterPolicies(true); len(got) != 1 || got[0].Reason != "b" {
		t.Errorf("of ClusterNetworkPolicy: %v", got)
	}
	if got := list.ofClusterPolicies(false); len(got) != 1 || got[0].Reason != "a" {
		t.Errorf("of e2e: %v", got)
	}
}
