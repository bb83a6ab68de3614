package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// traces prints what a network plugin may leave on a node, a line for each thing. Link-local addresses of IPv6 and their routes
// are the kernel's own: it makes them of the link's MAC address, which changes when a node is started again. A link that is left
// has a line by itself.
const traces = `
ip -o link | awk -F': ' '{sub(/@.*/, "", $2); print "link " $2}'
ip -o addr | awk '$4 !~ /^fe80:/ {print "address " $4 " on " $2}'
ip -4 route show table all | sed 's/^/route /; s/ *$//'
ip -6 route show table all | grep -v '^fe80\|^multicast ff00\|^local fe80\|^anycast fe80' | sed 's/^/route /; s/ *$//; s/ expires [0-9]*sec//'
ip rule | sed 's/^/rule /'
nft list tables | sed 's/^/nft /'
for dir in /run /var/lib/atoll /etc/cni /opt/cni /etc/openvswitch; do
	find "$dir" -mindepth 1 -maxdepth 3 -not -path '/run/containerd*' -not -path '/run/secrets*' -printf '%y %p\n' 2>/dev/null
done
ls -d /var/lib/atoll 2>/dev/null
if [ -S /run/openvswitch/db.sock ]; then
	ovs-vsctl list-ports br-int | sed 's/^/port /'
	ovs-vsctl get Open_vSwitch . external_ids | sed 's/^/setting /'
	ovs-vsctl --bare --columns=target list Controller | sed 's/^/controller /'
	ovs-vsctl --bare --columns=id list Flow_Sample_Collector_Set | sed 's/^/collector /'
	ovs-vsctl --bare --columns=targets list IPFIX | sed 's/^/exporter /'
fi
true`

// runtimes are what the container runtime makes for the first pod.
var runtimes = []string{"d /run/netns"}

// proxys reports whether a line is kube-proxy's, which begins when it begins, before or after the first look at the node.
func proxys(line string) bool {
	return strings.HasPrefix(line, "nft table ") && strings.HasSuffix(line, " kube-proxy")
}

// Traces is what is on each node, sorted.
func (c *Cluster) Traces(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	for _, node := range c.Box.Nodes() {
		text, err := c.Box.Exec(ctx, node, "bash", "-c", traces)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(lines)
		out[node] = slices.DeleteFunc(slices.Compact(lines), proxys)
	}
	return out, nil
}

// NothingLeft compares nodes with what they were, and looks for anything of Atoll's in the API. Of what was there, gone may be
// missing: directories that the sandbox makes, empty, for those sandboxes in which Atoll is no pod.
func (c *Cluster) NothingLeft(t *testing.T, before map[string][]string, gone ...string) {
	t.Helper()
	// A node's own router advertisements and kubelet's files come and go: what has to be as before is looked at until it is.
	Eventually(t, 10*time.Second, "nodes are as before the installation", func(ctx context.Context) error {
		now, err := c.Traces(ctx)
		if err != nil {
			return err
		}
		var differs []error
		for _, node := range slices.Sorted(maps.Keys(before)) {
			want := slices.DeleteFunc(slices.Clone(before[node]), func(line string) bool { return slices.Contains(gone, line) })
			want = append(want, runtimes...)
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), now[node]); diff != "" {
				differs = append(differs, fmt.Errorf("%s (-before +after):\n%s", node, diff))
			}
		}
		return errors.Join(differs...)
	})
	for _, words := range [][]string{
		{"get", "crd", "-o", "name"},
		{"get", "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name"},
		{
			"get", "nodes,services,endpointslices", "-A", "-o",
			"jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.annotations} {.metadata.labels} {.spec.taints}{\"\\n\"}{end}",
		},
		{"get", "certificatesigningrequests", "-o", "jsonpath={.items[*].spec.signerName}"},
	} {
		out, err := c.Program(t.Context(), append([]string{"kubectl"}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", words, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "atoll") && !strings.Contains(line, "example") {
				t.Errorf("kubectl %v: is left: %s", words, line)
			}
		}
	}
}

// Atoll runs the command line as the cluster's administrator, where the API server can be reached, and writes what it prints as it comes.
func (c *Cluster) Atoll(ctx context.Context, to io.Writer, words ...string) error {
	program := filepath.Join(filepath.Dir(c.Options.Program), "atoll")
	cmd := c.Program(ctx, append([]string{"central", "exec", "--", program}, append(words, "--kubeconfig="+c.Box.Kubeconfig())...)...)
	cmd.Stdout, cmd.Stderr = to, to
	return cmd.Run()
}
