//go:build e2e

package installed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// whatIsThere prints what a network plugin may leave on a node, a line for each thing.
const whatIsThere = `
ip -o link | awk -F': ' '{sub(/@.*/, "", $2); print "link " $2}'
ip -o addr | awk '{print "address " $4 " on " $2}'
ip -4 route show table all | sed 's/^/route /; s/ *$//'
ip -6 route show table all | grep -v '^fe80\|^multicast ff00\|^local fe80' | sed 's/^/route /; s/ *$//; s/ expires [0-9]*sec//'
ip rule | sed 's/^/rule /'
nft list tables | sed 's/^/nft /'
for dir in /run /var/lib/atoll /etc/cni /opt/cni /etc/openvswitch; do
	find "$dir" -mindepth 1 -maxdepth 3 -not -path '/run/containerd*' -not -path '/run/secrets*' -printf '%y %p\n' 2>/dev/null
done
ls -d /var/lib/atoll 2>/dev/null
true`

var (
	// emptyBefore are directories that the sandbox makes, for those sandboxes in which Atoll is no pod. They are empty: else something that was in them would be
	// missing afterwards, and found.
	emptyBefore = []string{"d /run/atoll", "d /run/openvswitch", "d /run/ovn"}
	// runtimes are what the container runtime makes for the first pod.
	runtimes = []string{"d /run/netns"}
)

// listNodes is what is on each node.
func listNodes(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	for _, node := range env.Box.Nodes() {
		text, err := env.Box.Exec(ctx, node, "bash", "-c", whatIsThere)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(lines)
		out[node] = slices.Compact(lines)
	}
	return out, nil
}

// TestUninstall: what hangs on Atoll is in the way, and named; told to, it goes, and each node and the API have what they had before the installation.
// Then Atoll is installed again. Meanwhile the API, and a pod in a node's own network, go on. Other tests of the package may come before and after it.
func TestUninstall(t *testing.T) {
	object := cluster.PodSpec{Namespace: "kube-system", Name: "goes-on", Node: env.Box.Nodes()[0]}.Object()
	object.Spec.HostNetwork = true
	goesOn := env.WaitReady(t, env.Make(t, object))[0]

	out, err := atoll(t.Context(), "uninstall")
	if err == nil || !strings.Contains(out, "Pod red/web-0") || !strings.Contains(out, "Network red") || !strings.Contains(out, "--force") {
		t.Fatalf("want a refusal that names what hangs on it: %v\n%s", err, out)
	}
	if _, err := env.Clients.Kube.AppsV1().Deployments(system).Get(t.Context(), "atoll-controller", metav1.GetOptions{}); err != nil {
		t.Fatalf("a refusal has changed something: %v", err)
	}

	failed := whileAskingTheAPI(t, func() {
		began := time.Now()
		if out, err := atoll(t.Context(), "uninstall", "--force"); err != nil {
			t.Fatalf("uninstall: %v\n%s", err, out)
		}
		t.Logf("uninstalled after %.0f s", time.Since(began).Seconds())
		checkNothingLeft(t)
		began = time.Now()
		if err := install(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("installed again after %.0f s", time.Since(began).Seconds())
		if err := applyExample(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if failed > 0 {
		t.Errorf("%d questions to the API failed", failed)
	}
	now, err := env.Clients.Kube.CoreV1().Pods(goesOn.Namespace).Get(t.Context(), goesOn.Name, metav1.GetOptions{})
	if err != nil || now.UID != goesOn.UID || now.Status.ContainerStatuses[0].RestartCount != 0 || !cluster.IsReady(now) {
		t.Errorf("the pod in its node's network did not go on: %+v, %v", now.Status, err)
	}
	TestTwoNetworks(t)
}

// whileAskingTheAPI counts how many of ten questions a second the API server did not answer while something happens.
func whileAskingTheAPI(t *testing.T, happens func()) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var failed, asked atomic.Int64
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := env.Clients.Kube.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			if err != nil && ctx.Err() == nil {
				failed.Add(1)
				t.Log(err)
			}
			asked.Add(1)
		}
	}()
	// A test that fails ends here, too.
	defer func() {
		cancel()
		<-ended
		t.Logf("%d questions to the API, %d failed", asked.Load(), failed.Load())
	}()
	happens()
	return failed.Load()
}

// checkNothingLeft compares nodes with what they were, and looks for anything of Atoll's in the API.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	// A node's own router advertisements and kubelet's files come and go: what has to be as before is looked at until it is.
	cluster.Eventually(t, 10*time.Second, "nodes are as before the installation", func(ctx context.Context) error {
		now, err := listNodes(ctx)
		if err != nil {
			return err
		}
		var differs []error
		for node, before := range bare {
			before = slices.DeleteFunc(slices.Clone(before), func(line string) bool { return slices.Contains(emptyBefore, line) })
			before = append(before, runtimes...)
			slices.Sort(before)
			before = slices.Compact(before)
			if diff := cmp.Diff(before, now[node]); diff != "" {
				differs = append(differs, fmt.Errorf("%s (-before +after):\n%s", node, diff))
			}
		}
		return errors.Join(differs...)
	})
	for _, words := range [][]string{
		{"get", "crd", "-o", "name"},
		{"get", "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name"},
		{"get", "nodes,services,endpointslices", "-A", "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.annotations} {.metadata.labels} {.spec.taints}{\"\\n\"}{end}"},
		{"get", "certificatesigningrequests", "-o", "jsonpath={.items[*].spec.signerName}"},
	} {
		out, err := kubectl(t.Context(), words...)
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", words, err, out)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "atoll") && !strings.Contains(line, "example") {
				t.Errorf("kubectl %v: is left: %s", words, line)
			}
		}
	}
}
