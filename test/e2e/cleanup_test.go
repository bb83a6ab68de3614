//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestDeletedPodsLeaveNothing: no link, no OVS port, no northbound row of a pod outlives it.
func TestDeletedPodsLeaveNothing(t *testing.T) {
	nodes := map[string][]string{}
	for _, node := range env.Box.Nodes() {
		nodes[node] = wiring(t, node)
	}
	env.Network(t, "brief", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "brief", "brief")
	var pods []*corev1.Pod
	for _, node := range env.Box.Nodes() {
		for i := range 2 {
			pods = append(pods, env.Pod(t, cluster.PodSpec{Namespace: "brief", Name: fmt.Sprintf("%s-%d", node, i), Node: node}))
		}
	}
	env.WaitReady(t, pods...)
	for _, node := range env.Box.Nodes() {
		if slices.Equal(nodes[node], wiring(t, node)) {
			t.Errorf("%s: two pods more are nowhere to be seen: %q", node, nodes[node])
		}
	}
	for _, p := range pods {
		env.DeletePod(t, p)
	}
	env.WaitGone(t, pods...)
	for _, node := range env.Box.Nodes() {
		waitWiring(t, node, nodes[node])
	}
	cluster.Eventually(t, cluster.Patience, "no port of the pods", func(context.Context) error {
		for _, p := range pods {
			if port := env.NB.Port(t, p.Namespace+"/"+p.Name); port != nil {
				return fmt.Errorf("%+v", port)
			}
		}
		return nil
	})
	env.DeleteNetwork(t, "brief")
	env.WaitNetworkGone(t, "brief")
	env.checkNodes(t)
	env.WaitNoRows(t, "brief")
}

// TestAgentSweepsLeftovers: what a crash left on a node goes when the agent starts, and nothing else goes.
func TestAgentSweepsLeftovers(t *testing.T) {
	const node = "n2"
	run := func(command string) {
		t.Helper()
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := env.Box.Exec(ctx, node, strings.Fields(command)...); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	run("ip link add foreign0 type veth peer name foreign1")
	run("ovs-vsctl add-port br-int foreign0 -- set Interface foreign0 external_ids:iface-id=foreign-guest")
	t.Cleanup(func() {
		run("ovs-vsctl --if-exists del-port br-int foreign0")
		run("ip link delete foreign0")
	})
	before := wiring(t, node)

	start := env.Stop(t, cluster.Daemon{Place: node, Name: "atoll-agent"})
	// Two pods that never were. The ADD of the first died before it made a port; the link of the second went with
	// its network namespace, but its DEL was lost.
	first := netdev.Owner{ContainerID: "c0ffee", Interface: "eth0", PodUID: "9b2e7c1e-0000-4000-8000-000000000001"}
	second := netdev.Owner{ContainerID: "decade", Interface: "eth0", PodUID: "9b2e7c1e-0000-4000-8000-000000000002"}
	run("ip link add " + first.HostName() + " type veth peer name crashed1")
	ctx, cancel := cluster.AfterTest()
	defer cancel()
	if out, err := env.Box.Exec(ctx, node, "ip", "link", "set", first.HostName(), "alias", first.Alias()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := second.HostName()
	ids := fmt.Sprintf("external_ids:iface-id=ghost/pod external_ids:iface-id-ver=%[1]s external_ids:atoll.dev/pod=ghost/pod "+
		"external_ids:atoll.dev/pod-uid=%[1]s external_ids:atoll.dev/sandbox=%[2]s external_ids:atoll.dev/interface=%[3]s "+
		"external_ids:atoll.dev/netns=/run/netns/ghost", second.PodUID, second.ContainerID, second.Interface)
	// There is no such link, which ovs-vswitchd would report: nobody waits for it.
	run("ovs-vsctl --no-wait add-port br-int " + name + " -- set Interface " + name + " " + ids + " -- set Port " + name + " " + ids)
	if now := wiring(t, node); len(now) != len(before)+3 {
		t.Fatalf("two links and a port more are not to be seen: %q", now)
	}
	start()
	waitWiring(t, node, before)
}

// wiring lists a node's links and the ports of its integration bridge.
func wiring(t *testing.T, node string) []string {
	t.Helper()
	w, err := wiringOf(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wiringOf(ctx context.Context, node string) ([]string, error) {
	links, err := env.Box.Exec(ctx, node, "ip", "-o", "link")
	if err != nil {
		return nil, fmt.Errorf("list links of %s: %w\n%s", node, err, links)
	}
	ports, err := env.Box.Exec(ctx, node, "ovs-vsctl", "list-ports", "br-int")
	if err != nil {
		return nil, fmt.Errorf("list ports of %s: %w\n%s", node, err, ports)
	}
	var all []string
	for line := range strings.Lines(string(links)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
			all = append(all, "link "+name)
		}
	}
	for port := range strings.FieldsSeq(string(ports)) {
		// Tunnels follow the nodes that Networks need, not pods.
		if !strings.HasPrefix(port, "ovn-") && !strings.HasPrefix(port, "patch-") {
			all = append(all, "port "+port)
		}
	}
	slices.Sort(all)
	return all, nil
}

func waitWiring(t *testing.T, node string, want []string) {
	t.Helper()
	cluster.Eventually(t, cluster.Patience, "links and ports of "+node+" as before", func(ctx context.Context) error {
		got, err := wiringOf(ctx, node)
		if err == nil && !slices.Equal(want, got) {
			err = fmt.Errorf("difference (-before +now):\n%s", cmp.Diff(want, got))
		}
		return err
	})
}
