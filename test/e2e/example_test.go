//go:build e2e

package e2e

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// matrixWithin is how long the matrix may take to be as expected when nothing is wrong: one run, and another
// if the machine was too busy for the first.
const matrixWithin = 60 * time.Second

// TestExampleRunsOnAllNodes: plain StatefulSets and Deployments, started by real kubelets through the CNI plugin.
func TestExampleRunsOnAllNodes(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]map[string]bool{}
	same := map[string]*corev1.Pod{}
	for _, p := range list.Items {
		if !cluster.IsReady(&p) {
			t.Errorf("%s/%s is not Ready", p.Namespace, p.Name)
		}
		if nodes[p.Namespace] == nil {
			nodes[p.Namespace] = map[string]bool{}
		}
		nodes[p.Namespace][p.Spec.NodeName] = true
		if p.Labels["app"] == "same" {
			same[p.Namespace] = &p
		}
	}
	for _, ns := range []string{"red", "blue"} {
		for _, node := range env.Box.Nodes() {
			if !nodes[ns][node] {
				t.Errorf("no pod of %s runs on %s", ns, node)
			}
		}
		p := same[ns]
		if p == nil || cluster.OwnAddress(t, p) != "10.0.0.10" || p.Spec.NodeName != "n1" {
			t.Errorf("the pod %s/same has not 10.0.0.10 on n1: %+v", ns, p)
		}
	}
}

// TestFaces: Kubernetes knows each pod of a Network by an address of its own, which is its node's to give.
func TestFaces(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, p := range list.Items {
		name, ip := p.Namespace+"/"+p.Name, p.Status.PodIP
		if other, twice := seen[ip]; twice {
			t.Errorf("%s and %s are both %s", name, other, ip)
		}
		seen[ip] = name
		node, err := env.Clients.Kube.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		given := intake.NodeNetwork(node.Annotations[model.AnnotationNode], string(node.UID))
		face, err := netip.ParseAddr(ip)
		if err != nil || given == nil || !slices.ContainsFunc(given.Faces, func(b netip.Prefix) bool { return b.Contains(face) }) {
			t.Errorf("%s has the address %s, which is none of its node's: %+v", name, ip, given)
		}
	}
	if len(seen) == 0 {
		t.Error("there are no pods")
	}
}

// TestMatrix: every pod against every pod, the two with the same address on the same node among them.
func TestMatrix(t *testing.T) {
	env.checkMatrix(t, matrixWithin)
}

// TestNetworkStatus: the multi-network convention's annotation says what the pod really has.
func TestNetworkStatus(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		var status []struct {
			Name      string       `json:"name"`
			Interface string       `json:"interface"`
			IPs       []netip.Addr `json:"ips"`
			MAC       string       `json:"mac"`
			Default   bool         `json:"default"`
		}
		if err := json.Unmarshal([]byte(p.Annotations[model.AnnotationNetworkStatus]), &status); err != nil {
			t.Errorf("%s/%s: %v", p.Namespace, p.Name, err)
			continue
		}
		if len(status) != 1 || !status[0].Default || status[0].Interface != "eth0" || !strings.Contains(status[0].Name, p.Namespace) ||
			len(status[0].IPs) != 1 || status[0].IPs[0].String() != cluster.OwnAddress(t, &p) {
			t.Errorf("%s/%s with address %s has status %+v", p.Namespace, p.Name, cluster.OwnAddress(t, &p), status)
			continue
		}
		port := env.NB.Port(t, p.Namespace+"/"+p.Name)
		want := []string{status[0].MAC + " " + cluster.OwnAddress(t, &p)}
		if port == nil || !slices.Equal(port.Addresses, want) || !slices.Equal(port.PortSecurity, want) {
			t.Errorf("%s/%s: port %+v, want addresses and port security %q", p.Namespace, p.Name, port, want)
		}
	}
}

// TestCommandsOfTheDemo: what the demo tells a person to try next works as printed.
func TestCommandsOfTheDemo(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"kubectl", "get", "networks"}, []string{
				"NAME", "TYPE", "PHASE", "PODS", "AGE", "red", "blue", "default", "vpc", "flat", "Ready",
			},
		},
		{[]string{"kubectl", "get", "pods", "-A", "-o", "wide"}, []string{"100.64.", "n1", "n2", "n3", "Running"}},
		{[]string{"ovn-nbctl", "show", "red"}, []string{"router", "10.0.0.1/24", "10.0.1.1/24"}},
		{[]string{"node", "exec", "n1", "--", "ovs-vsctl", "show"}, []string{"br-int", "geneve"}},
		{[]string{"status"}, []string{"n1", "n2", "n3"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, err := env.Program(t.Context(), test.args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range test.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}
