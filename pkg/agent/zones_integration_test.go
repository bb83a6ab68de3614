//go:build integration

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// appctl sends a command to ovs-vswitchd (ovs-appctl(8)).
func (n *node) appctl(args ...string) string {
	n.tb.Helper()
	return n.run("ovs-appctl", append([]string{"--timeout=20", "-t", filepath.Join(n.dir, "ovs-vswitchd.ctl")}, args...)...)
}

// boundTable has the table that holds the connections of all pods be of that size, until the test ends.
func (n *node) boundTable(size int) {
	n.tb.Helper()
	if n.datapath == ovn.UserspaceDatapath {
		n.appctl("dpctl/ct-set-maxconns", strconv.Itoa(size))
		return
	}
	// It is one number for all network namespaces, which only the first one may write.
	const file = "/proc/sys/net/netfilter/nf_conntrack_max"
	before, err := os.ReadFile(file)
	must(n.tb, err)
	write := func(text string) error {
		return ns.WithNetNSPath("/proc/1/ns/net", func(ns.NetNS) error { return os.WriteFile(file, []byte(text), 0) })
	}
	must(n.tb, write(strconv.Itoa(size)))
	n.tb.Cleanup(func() { must(n.tb, write(strings.TrimSpace(string(before)))) })
}

// TestAPodCannotFillTheTableOfConnections: a pod begins more connections inside its Network than its node has room for. With the
// bound that the controller gives each port they end at that, and a pod of another Network begins its own. Without it the table
// is full, and the other's are not made.
func TestAPodCannotFillTheTableOfConnections(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	const (
		service = "10.96.0.77:7"
		room    = 300
		most    = 60
		many    = 450
		fewer   = 40
	)
	clients := map[string]*testPod{}
	for i, network := range []string{"red", "blue"} {
		clients[network] = n.addGuest(a, network, "client", 5, 10+i)
		server := n.addGuest(a, network, "server", 6, 20+i)
		n.nbctl("lb-add", network, service, serveUDP(t, server), "udp", "--", "ls-lb-add", network, network)
	}
	n.nbctl("--wait=hv", "sync")
	n.boundTable(room)
	api := kubefake.NewClientset()
	a.teller = newTeller(testNode, api.CoreV1(), a.log)
	attack := func() (red, blue int) {
		t.Helper()
		n.appctl("dpctl/flush-conntrack")
		red, _ = clients["red"].connections(service, many)
		blue, _ = clients["blue"].connections(service, fewer)
		return red, blue
	}
	red, blue := attack()
	t.Logf("without a bound: %d of %d of red's were made, and %d of %d of blue's", red, many, blue, fewer)
	if red < most || blue > fewer/2 {
		t.Error("without a bound the table is not full: this test shows nothing")
	}
	for network := range clients {
		for _, name := range []string{"client", "server"} {
			n.nbctl("set", "Logical_Switch_Port", network+"/"+name, fmt.Sprintf("options:ct-zone-limit=%d", most))
		}
	}
	n.nbctl("--wait=hv", "sync")
	red, blue = attack()
	t.Logf("with %d for each pod: %d of %d of red's were made, and %d of %d of blue's\n%s", most, red, many, blue, fewer,
		n.appctl("dpctl/ct-get-limits"))
	if red == 0 || red > most || blue < fewer {
		t.Errorf("want no more than %d of red's, and all %d of blue's", most, fewer)
	}

	must(t, a.lookAtCrowds(t.Context()))
	told := map[string]string{}
	events, err := api.CoreV1().Events("red").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, event := range events.Items {
		told[event.InvolvedObject.Name] = event.Reason
	}
	// The server has as many of its own.
	if crowded := testutil.ToFloat64(a.metrics.crowded.WithLabelValues(crowdInside)); crowded != 2 || len(told) != 2 ||
		told["client"] != model.ReasonConnectionsRefused || told["server"] != told["client"] {
		t.Errorf("%v pods are counted, and %v told", crowded, told)
	}
	n.appctl("dpctl/flush-conntrack")
	must(t, a.lookAtCrowds(t.Context()))
	if crowded := testutil.ToFloat64(a.metrics.crowded.WithLabelValues(crowdInside)); crowded != 0 {
		t.Errorf("%v pods are counted when no connection is left", crowded)
	}
}
