package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// moved is a test that only make test-all runs.
type moved struct {
	// dir is its package's directory.
	dir string
	// test is the function, or a subtest as go test prints it: TestX/some_row. No other package has a function of that name.
	test string
	// twin is a test of the gate that shows the same at a lower price, as DIRECTORY.TestName.
	twin string
	// why says what the test shows beyond its twin, and what it costs.
	why string
}

// later are the tests that are not part of the gate. docs/design/testing.md names them.
var later = []moved{
	{"test/e2e", "TestNamesGoOn", "pkg/dns/names.TestHandover", "names are answered while the agent and the DNS program are killed and replaced, for 19 s"},
	{"test/e2e", "TestRollingRestart", "pkg/controller/decide.TestNewConnectionsWhileEndpointsChangeWithPackets", "the same by a Deployment of Kubernetes"},
	{"test/e2e", "TestKillDuringRollout", "test/e2e.TestKillAgentDuringStart", "everything is killed again and again while all pods are replaced"},
	{"test/e2e", "TestExplainNamesWhatIsBroken/node-down", "pkg/inspect/explain.TestExplainTellsWhoIsAway", "on a cluster; Kubernetes takes 40 s to say that a node is away"},
	{"test/e2e", "TestExplainNamesWhatIsBroken/stopped-agent", "pkg/inspect/explain.TestExplainTellsWhoIsAway", "on a cluster, for 24 s"},
	{"test/e2e", "TestWhatKubectlShows/ovn-northd-is-away", "pkg/agent.TestPodsAreToldWhatTheyWaitFor", "by kubectl, for 9 s"},
	{"test/e2e", "TestWhatKubectlShows/the-southbound-database-is-away", "pkg/agent.TestPodsAreToldWhatTheyWaitFor", "by kubectl, for 17 s"},
	{
		"test/e2e", "TestWhatKubectlShows/ovn-controller-of-the-node-is-away", "pkg/agent.TestPodsAreToldWhatTheyWaitFor", "by kubectl, for 10 s",
	},
	{"test/e2e", "TestWhatKubectlShows/ovs-vswitchd-of-the-node-is-away", "pkg/agent.TestPodsAreToldWhatTheyWaitFor", "by kubectl, for 9 s"},
	{
		"test/e2e", "TestKillDatabases", "pkg/daemons/central.TestCluster",
		"pods reach each other on a cluster while databases are killed, for 26 s",
	},
	{"test/e2e", "TestWhatKubectlShows/the-northbound-database-is-away", "pkg/controller/decide.TestTheDatabaseIsAway", "by kubectl, for 9 s"},
	{"test/e2e", "TestReboot", "pkg/agent.TestPortholesAfterAReboot", "with a kubelet and packets between nodes, for 49 s"},
	{"test/e2e", "TestNodeOff", "pkg/agent.TestPortholesAfterAReboot", "a node stays off, and atoll-sandbox up starts it again, for 50 s"},
	{"test/e2e", "TestKillVSwitch", "pkg/daemons/chassis.TestRestarts", "with a kubelet's pods, and rows that stay, for 15 s"},
	{
		"test/e2e", "TestASecondFlatNetwork", "pkg/controller/decide.TestASecondFlatNetworkWithPackets",
		"with probes, names, the Kubernetes API and the way out, for 63 s",
	},
	{"test/e2e", "TestInfrastructureReachesPods", "pkg/agent.TestFacesOfAnotherNode", "by UDP, ICMP and a Service, too, for 55 s"},
	{
		"test/e2e", "TestATenantsNameServers", "pkg/controller/decide.TestQuestionsForNamesWithPackets",
		"the example of docs/dns.md, whose servers are in another Network, for 49 s",
	},
	{
		"test/e2e", "TestWhatAProviderOffers", "pkg/dns/names.TestNamesOfAProviderFollowTheCluster",
		"with packets to what the names lead to, for 43 s",
	},
	{
		"test/e2e", "TestAnyAddresses/plan-services", "pkg/agent.TestEveryRangeHasNamesAPIAndServicesWithPackets",
		"on a cluster, as plan-everything in the gate",
	},
	{
		"test/e2e", "TestAnyAddresses/plan-home", "pkg/agent.TestEveryRangeHasNamesAPIAndServicesWithPackets",
		"on a cluster, as plan-everything in the gate",
	},
	{
		"test/e2e", "TestAnyAddresses/plan-faces", "pkg/agent.TestEveryRangeHasNamesAPIAndServicesWithPackets",
		"on a cluster, as plan-everything in the gate",
	},
	{
		"test/e2e", "TestAnyAddresses/plan-abroad", "pkg/agent.TestEveryRangeHasNamesAPIAndServicesWithPackets",
		"on a cluster, as plan-everything in the gate",
	},
	{"test/e2e/installed", "TestChurn", "pkg/daemons/central.TestCluster", "pods come and go meanwhile, and what is killed is drawn"},
	{"test/e2e/installed", "TestRolled/central_rolled", "pkg/daemons/central.TestCluster", "the same under the load of pods"},
	{
		"test/e2e/installed", "TestRolled/controller_rolled", "pkg/controller/decide.TestRestartWritesNothing", "the same under the load of pods",
	},
	{"test/e2e/installed", "TestRolled/names_rolled", "pkg/dns/names.TestHandover", "the same under the load of pods"},
	{"test/e2e/installed", "TestConnectivityKept", "pkg/cli.TestScripts", "what connectivity test --keep keeps, on a cluster"},
	{"test/e2e/installed", "TestConnectivityOfPodsThatDoNotStart", "pkg/cli/connectivity.TestNotTried", "the same on a cluster"},
	{"test/e2e/installed", "TestConnectivityFinds/a_policy_that_shuts_a_pod", "pkg/cli/connectivity.TestJudge", "by a whole run on a cluster"},
	{
		"test/e2e/installed", "TestConnectivityFinds/no_way_to_the_infrastructure", "pkg/cli/connectivity.TestJudge",
		"by a whole run on a cluster",
	},
	{
		"test/e2e/installed", "TestConnectivityWithoutAnAgent", "test/e2e/installed.TestConnectivityFinds",
		"a fault that takes a minute to be found",
	},
	{
		"test/e2e/installed", "TestAStolenNodeIsShutOut", "pkg/cli/steps.TestRun",
		"the same on a cluster, with a thief who keeps asking, for 90 s",
	},
	{"pkg/agent", "TestNeighboursOfAFlood", "pkg/agent.TestWhatAPodSendsIsBounded", "what the bound is good for: a ratio of measurements"},
	{
		"pkg/inspect/inspectapi", "TestAThousandNetworks", "pkg/inspect/inspectapi.TestInspection",
		"the same questions at 1,000 Networks, within a second",
	},
}

// chosen returns the arguments of go test without the tests that are not part of the gate, unless nothing is left out.
func (r *runner) chosen(args ...string) []string { return r.chosenBut(nil, args...) }

// chosenBut does so without tests that are part of another suite.
func (r *runner) chosenBut(elsewhere []string, args ...string) []string {
	without := make([]string, 0, len(elsewhere)+len(later))
	for _, test := range elsewhere {
		without = append(without, "^"+test+"$")
	}
	if !r.all {
		for _, m := range later {
			without = append(without, "^"+strings.ReplaceAll(m.test, "/", "$/^")+"$")
		}
	}
	args = slices.Clone(args)
	if r.all && !slices.Contains(args, "-count=1") {
		// Package rapid reads its seed before Go's test cache notices what is read.
		args = slices.Insert(args, 0, "-count=1")
	}
	if len(without) == 0 {
		return args
	}
	return slices.Insert(args, 0, "-skip="+strings.Join(without, "|"))
}

// times are the tests that hold a promised time. make test-all repeats each.
var times = []struct{ tag, dir, test string }{
	{"integration", "pkg/controller/decide", "TestWhatSomebodyBreaksComesBackWithinASecond"},
	{"integration", "pkg/controller/decide", "TestNewConnectionsWhileEndpointsChangeWithPackets"},
	{"integration", "pkg/controller/decide", "TestBusyClientsLeaveEndpointsWithPackets"},
	{"integration", "pkg/controller/decide", "TestJoinedUnderTraffic"},
	{"integration", "pkg/agent", "TestPodsAreToldWhatTheyWaitFor"},
	{"integration", "pkg/agent", "TestAPodDoesNotHaveOVNControllerToItself"},
	{"integration", "pkg/agent", "TestNeighboursOfAFlood"},
	{"integration", "pkg/dns/names", "TestHandover"},
	{"integration", "pkg/inspect/inspectapi", "TestAThousandNetworks"},
	{"e2e", "test/e2e", "TestDriftIsRepaired"},
	{"e2e", "test/e2e", "TestWhatKubectlShows"},
	{"e2e", "test/e2e", "TestNamesGoOn"},
	{"e2e", "test/e2e", "TestRollingRestart"},
}

// repeatTimes repeats each test of times.
func repeatTimes(ctx context.Context, r *runner, out *result) error {
	out.live = true
	for _, p := range times {
		test := &rerun{runner: r, flags: []string{"-tags=" + p.tag, "-timeout=3h"}, pkg: module + p.dir, test: p.test}
		if err := test.repeat(ctx, out); err != nil {
			out.record(p.test, err)
		}
	}
	return nil
}

// long runs commands of the Makefile that take minutes to hours, and judge by themselves.
func long(ctx context.Context, r *runner, out *result) error {
	from := rand.IntN(1_000_000)
	for _, command := range [][]string{
		{"histories"},
		{"mutations"},
		{"policy", fmt.Sprintf("POLICY=-clusters=2000 -seed=%d", from)},
		{"policy-packets", fmt.Sprintf("PACKETS=-packets=10000 -seed=%d", from)},
		{"explain-packets"},
		{"rebuild"},
		{"losses"},
		{"churn"},
		{"conformance"},
		{"conformance-gateway"},
		{"test-images"},
	} {
		out.record("make "+strings.Join(command, " "), r.loud(ctx, "make", command...))
	}
	return nil
}

// twinOf splits DIRECTORY.TestName.
func twinOf(twin string) (dir, test string, err error) {
	at := strings.LastIndexByte(twin, '.')
	if at < 0 {
		return "", "", fmt.Errorf("read twin %q: there is no package", twin)
	}
	return twin[:at], twin[at+1:], nil
}
