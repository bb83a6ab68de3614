//go:build e2e

package e2e

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestOwnAddress: Kubernetes sees a pod's faces, and programs inside see its own addresses. One that serves at $(POD_IP)
// is reached by its peers, and by kubelet's probe.
func TestOwnAddress(t *testing.T) {
	env.Network(t, "own", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}},
	}})
	env.Namespace(t, "own", "own")
	client := env.Pod(t, cluster.PodSpec{Namespace: "own", Name: "client", Node: "n2"})
	server := ownServer(t, "server", "n1")
	env.WaitReady(t, client)
	checkOwn(t, server)
	env.Reach(t, client, server)

	// Pods of a node whose agent has just died and come back.
	env.Kill(t, cluster.Daemon{Place: "n1", Name: "atoll-agent"})
	later := ownServer(t, "later", "n1")
	checkOwn(t, later)
	env.Reach(t, client, later)
	checkOwn(t, server)
}

// ownServer is a pod that serves at its own address alone, and is ready once kubelet has reached it.
func ownServer(t *testing.T, name, node string) *corev1.Pod {
	t.Helper()
	object := cluster.PodSpec{Namespace: "own", Name: name, Node: node}.Object()
	object.Spec.HostAliases = []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"elsewhere"}}}
	container := &object.Spec.Containers[0]
	container.Command = []string{matrix.Program, "serve", "--address=$(POD_IP)"}
	for variable, path := range map[string]string{"POD_IP": "status.podIP", "POD_IPS": "status.podIPs"} {
		container.Env = append(container.Env, corev1.EnvVar{
			Name: variable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		})
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: "URL", Value: "http://$(POD_IP):8080/"})
	container.StartupProbe, container.ReadinessProbe = nil, &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(wire.DefaultPort)}},
		PeriodSeconds: 1,
	}
	pod, err := env.Clients.Kube.CoreV1().Pods("own").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.DeletePod(t, pod) })
	return env.WaitReady(t, pod)[0]
}

// checkOwn compares what Kubernetes sees of a pod, and what the pod sees, with what the controller gave it.
func checkOwn(t *testing.T, p *corev1.Pod) {
	t.Helper()
	given := cluster.AttachmentOf(t, p)
	var own, faces, status []string
	for _, prefix := range given.Addresses {
		own = append(own, prefix.Addr().String())
	}
	for _, face := range given.Faces {
		faces = append(faces, face.String())
	}
	for _, ip := range p.Status.PodIPs {
		status = append(status, ip.IP)
	}
	if len(own) != 2 || len(faces) != 2 || !slices.Equal(faces, status) {
		t.Fatalf("%s has addresses %v and faces %v, and its status %v", p.Name, own, faces, status)
	}
	out, err := env.Exec(t.Context(), p.Namespace, p.Name, nil, matrix.Program, "own")
	if err != nil {
		t.Fatal(err)
	}
	var seen wire.Own
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	slices.Sort(seen.Environment)
	var values []string
	for _, variable := range seen.Environment {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains([]string{"POD_IP", "POD_IPS", "URL"}, name) {
			values = append(values, variable)
		}
	}
	want := []string{"POD_IP=" + own[0], "POD_IPS=" + strings.Join(own, ","), "URL=http://" + own[0] + ":8080/"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("%s's environment (-want +got):\n%s", p.Name, diff)
	}
	if want := []string{matrix.Program, "serve", "--address=" + own[0]}; !slices.Equal(seen.Command, want) {
		t.Errorf("%s's command is %q, want %q", p.Name, seen.Command, want)
	}
	if diff := cmp.Diff(sorted(own), sorted(seen.Names)); diff != "" {
		t.Errorf("%s's own name leads to (-want +got):\n%s", p.Name, diff)
	}
	for line := range strings.Lines(seen.Hosts) {
		if address, _, _ := strings.Cut(line, "\t"); slices.Contains(faces, address) {
			t.Errorf("%s's hosts file names its face: %q", p.Name, line)
		}
	}
	if !strings.Contains(seen.Hosts, "\n10.9.9.9\telsewhere\n") {
		t.Errorf("%s's hosts file lacks its alias:\n%s", p.Name, seen.Hosts)
	}
}

// sorted puts addresses in an order.
func sorted(addresses []string) []string {
	return slices.SortedFunc(slices.Values(addresses), func(a, b string) int {
		return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b))
	})
}
