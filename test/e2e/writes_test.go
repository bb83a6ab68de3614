//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// writesCounted has the API server count the requests by which the controller writes on pods of a namespace: as a flow of its own.
// A policy or a webhook would count a write twice when the server repeats it, since kubelet wrote at the same moment.
const writesCounted = `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: counts-writes}
spec:
  priorityLevelConfiguration: {name: workload-high}
  matchingPrecedence: 100
  rules:
  - subjects: [{kind: ServiceAccount, serviceAccount: {namespace: atoll-system, name: atoll-controller}}]
    resourceRules:
    - {verbs: [create, update, patch, delete], apiGroups: [""], resources: [pods, pods/status, pods/binding, pods/eviction], namespaces: [frugal]}
`

// TestOneWritePerPod: between a pod's creation and its start the API server sees one write of ours.
func TestOneWritePerPod(t *testing.T) {
	const count = 6
	env.Network(t, "frugal", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "frugal", "frugal")
	env.Apply(t, writesCounted)
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := env.Program(ctx, "kubectl", "delete", "flowschema", "counts-writes").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	// The probe's own write is behind us before we count.
	env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "frugal", Name: "probe"}))
	cluster.Eventually(t, cluster.Patience, "the API server counts", func(ctx context.Context) error {
		if err := writeAsController(ctx, t, "frugal", "probe"); err != nil || controllerWrites(t) > 0 {
			return err
		}
		return errors.New("not yet")
	})
	before := controllerWrites(t)
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, env.Pod(t, cluster.PodSpec{Namespace: "frugal", Name: fmt.Sprintf("p%d", i)}))
	}
	env.WaitReady(t, pods...)
	if got := controllerWrites(t) - before; got != count {
		t.Errorf("%d pods took %d writes", count, got)
	}
}

// writeAsController tries to write an annotation on a pod, in the controller's name and as it does: one of those that it may
// write, as it is.
func writeAsController(ctx context.Context, t *testing.T, namespace, name string) error {
	_, err := env.As(t, "system:serviceaccount:atoll-system:atoll-controller").CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	return err
}

// controllerWrites is what the API server has counted.
func controllerWrites(t *testing.T) int {
	t.Helper()
	metrics, err := env.Clients.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for line := range strings.Lines(string(metrics)) {
		labels, value, _ := strings.Cut(line, "} ")
		if !strings.HasPrefix(labels, "apiserver_flowcontrol_dispatched_requests_total{") ||
			!strings.Contains(labels, `flow_schema="counts-writes"`) {
			continue
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
		writes += int(number)
	}
	return writes
}
