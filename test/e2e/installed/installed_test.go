//go:build e2e

package installed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/reach"
)

// TestTwoNetworks: what the demo shows holds on an installed cluster, too: who reaches whom, and what pods reach besides.
func TestTwoNetworks(t *testing.T) {
	cluster.Eventually(t, 2*time.Minute, "the matrix and the answers are as expected", func(ctx context.Context) error {
		pods, err := matrix.List(ctx, env.Clients.Kube, selector)
		if err != nil {
			return err
		}
		m, err := matrix.Run(ctx, env.Exec, pods)
		if err != nil {
			return err
		}
		if v := m.Verdict(); !v.OK() {
			return errors.Join(errors.New(v.String()), m.Print(os.Stdout))
		}
		answers, err := reach.Ask(ctx, env.Exec, env.Clients.Kube, reach.Example(), reach.SandboxOutside())
		if err != nil {
			return err
		}
		if n := reach.Failures(answers); n > 0 {
			return fmt.Errorf("%d of %d answers are not as expected: %+v", n, len(answers), answers)
		}
		t.Logf("%s; %d answers as expected", m.Verdict(), len(answers))
		return nil
	})
}

// TestWhatIsOpen: nothing of OVN listens without TLS, and the databases' files and keys are root's.
func TestWhatIsOpen(t *testing.T) {
	for _, node := range env.Box.Nodes() {
		out, err := env.Box.Exec(t.Context(), node, "ss", "-Hltn")
		if err != nil {
			t.Fatal(err)
		}
		ports := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 3 {
				ports[fields[3][strings.LastIndex(fields[3], ":")+1:]] = true
			}
		}
		for _, port := range []string{"6641", "6642", "16642", "16643", "16644"} {
			if !ports[port] {
				t.Errorf("%s does not listen at %s: %s", node, port, out)
				continue
			}
			// A line of JSON-RPC without TLS has no answer.
			plain, err := env.Box.Exec(t.Context(), node, "bash", "-c",
				fmt.Sprintf(
					`exec 3<>/dev/tcp/%s/%s; printf '{"method":"list_dbs","params":[],"id":0}' >&3; timeout 2 head -c 20 <&3 | grep -c result || true`,
					env.NodeAddresses(t, node)[0], port))
			if err != nil || strings.TrimSpace(string(plain)) != "0" {
				t.Errorf("%s answers at %s without TLS: %s, %v", node, port, plain, err)
			}
		}
	}
}

// TestOVNTools: the tools of OVN and Open vSwitch that somebody types in a pod find what the pod runs: of the databases' members
// in each, whether it leads or not.
func TestOVNTools(t *testing.T) {
	for _, c := range []struct{ daemons, container, command, want string }{
		{"atoll-ovn-central", "", "ovn-nbctl show", "(red/"},
		{"atoll-ovn-central", "sb", "ovn-sbctl show", "Chassis"},
		{"atoll-ovn-central", "northd", "ovn-nbctl --columns=name list Logical_Router", "red"},
		{"atoll-ovn-node", "ovs-vswitchd", "ovs-vsctl show", "Bridge br-int"},
		{"atoll-ovn-node", "ovn-controller", "ovs-vsctl get Open_vSwitch . external_ids:ovn-remote", "ssl:"},
		{"atoll-ovn-node", "ovs-vswitchd", "ovs-ofctl dump-tables br-int", "table 0"},
		{"atoll-agent", "", "nft list ruleset", "table "},
		{"atoll-ovn-node", "ovn-controller", "ovn-appctl -t /var/run/ovn/ovn-controller.ctl connection-status", "connected"},
	} {
		pods, err := env.Clients.Kube.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=" + c.daemons,
		})
		if err != nil || len(pods.Items) != len(env.Box.Nodes()) {
			t.Fatalf("%d pods of %s: %v", len(pods.Items), c.daemons, err)
		}
		if c.daemons != "atoll-ovn-central" {
			pods.Items = pods.Items[:1] // nodes have no leader
		}
		for _, p := range pods.Items {
			words := []string{"exec", "-n", system, p.Name}
			if c.container != "" {
				words = append(words, "-c", c.container)
			}
			// A tool that does not find its socket tries for ever.
			ctx, cancel := context.WithTimeout(t.Context(), toolWithin)
			out, err := kubectl(ctx, append(append(words, "--"), strings.Fields(c.command)...)...)
			cancel()
			if err != nil || !strings.Contains(out, c.want) {
				t.Errorf("%s on %s, container %q: %s: %v, without %q:\n%s", c.daemons, p.Spec.NodeName, c.container, c.command, err, c.want, out)
			}
		}
	}
}

// toolWithin is how long a tool of OVN may take in a pod.
const toolWithin = 30 * time.Second
