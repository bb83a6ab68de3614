//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestOneWritePerPod: between a pod's creation and its start the API server sees one write of ours, a PATCH of the
// pod. (kubelet's and the scheduler's writes go to subresources.)
func TestOneWritePerPod(t *testing.T) {
	const count = 6
	env.Network(t, "frugal", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "frugal", "frugal")
	before := podWrites(t)
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, env.Pod(t, cluster.PodSpec{Namespace: "frugal", Name: fmt.Sprintf("p%d", i)}))
	}
	env.WaitReady(t, pods...)
	after := podWrites(t)
	if got := after["PATCH"] - before["PATCH"]; got != count {
		t.Errorf("%d pods took %d PATCHes", count, got)
	}
	if got := after["PUT"] - before["PUT"]; got != 0 {
		t.Errorf("%d pods took %d PUTs", count, got)
	}
}

// podWrites counts the API server's writes to pods themselves, by verb.
func podWrites(t *testing.T) map[string]int {
	t.Helper()
	metrics, err := env.Clients.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writes := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	seen := false
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		seen = true
		if !strings.Contains(labels, `resource="pods"`) || !strings.Contains(labels, `subresource=""`) || !strings.Contains(labels, `group=""`) {
			continue
		}
		_, value, _ := strings.Cut(labels, "} ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("read %q: %v", lines.Text(), err)
		}
		for _, verb := range []string{"PATCH", "PUT"} {
			if strings.Contains(labels, `verb="`+verb+`"`) {
				writes[verb] += int(number)
			}
		}
	}
	if err := lines.Err(); err != nil || !seen {
		t.Fatalf("no apiserver_request_total in the metrics (%v)", err)
	}
	return writes
}
