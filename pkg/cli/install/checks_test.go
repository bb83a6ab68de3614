package install

import (
	"net/netip"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name, address string) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{controlPlaneLabel: ""}, Annotations: map[string]string{}},
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "containerd://2.4.1"}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}}
	return n
}

// good is a cluster that nothing speaks against.
func good() facts {
	return facts{
		server: "v1.36.2", policies: true,
		nodes:    []corev1.Node{node("a", "192.0.2.1"), node("b", "192.0.2.2"), node("c", "192.0.2.3")},
		services: ranges{services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	v := plain()
	v.NodeCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	plan := prepare(t, "ha", v)
	v.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}
	overlapping := prepare(t, "ha", v)
	v.NodeCIDRs, v.PodCIDRs = nil, nil
	withoutNodes := prepare(t, "ha", v)
	v.NodeCIDRs = []netip.Prefix{netip.MustParsePrefix("100.64.7.0/24")}
	nodesInFaces := prepare(t, "ha", v)
	v.NodeCIDRs = nil
	privileged := func(namespace string) []corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"}}
		p.Spec.Containers = []corev1.Container{{}, {SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		return []corev1.Pod{p}
	}
	ownOVN := prepare(t, "existing-ovn", v)
	for _, c := range good().judge(plan) {
		if c.Verdict != OK || c.Next != "" {
			t.Errorf("a good cluster: %+v", c)
		}
	}
	daemon := func(namespace, name string) appsv1.DaemonSet {
		return appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, test := range []struct {
		what   string
		plan   *Plan
		change func(*facts)
		check  string
		want   Verdict
	}{
		{"too old for nodes' certificates", plan, func(f *facts) { f.server = "v1.31.9" }, "Kubernetes", Refuse},
		{"old enough without them", ownOVN, func(f *facts) { f.server = "v1.31.9" }, "Kubernetes", OK},
		{"too old", ownOVN, func(f *facts) { f.server = "v1.30.0" }, "Kubernetes", Refuse},
		{"newer than tested", plan, func(f *facts) { f.server = "v1.37.0" }, "Kubernetes", Warn},
		{"a provider's version", plan, func(f *facts) { f.server = "v1.35.1+k3s1" }, "Kubernetes", OK},
		{"no policies", plan, func(f *facts) { f.policies = false }, "admission policies", Refuse},
		{"no rights", plan, func(f *facts) { f.denied = []string{"create namespaces"} }, "your rights", Refuse},
		{"another version", plan, func(f *facts) { f.installed = &Installed{Version: "v0.2.0"} }, CheckInstalled, Refuse},
		{"the same version", plan, func(f *facts) { f.installed = &Installed{Version: "v0.3.0"} }, CheckInstalled, OK},
		{"some version", plan, func(f *facts) { f.installed = &Installed{} }, CheckInstalled, Warn},
		{"Windows", plan, func(f *facts) { f.nodes[1].Status.NodeInfo.OperatingSystem = "windows" }, "nodes' platforms", Refuse},
		{"arm64", plan, func(f *facts) { f.nodes[1].Status.NodeInfo.Architecture = "arm64" }, "nodes' platforms", Warn},
		{
			"containerd 1", plan, func(f *facts) { f.nodes[2].Status.NodeInfo.ContainerRuntimeVersion = "containerd://1.7.2" }, "container runtimes",
			Warn,
		},
		{
			"another runtime", plan, func(f *facts) { f.nodes[2].Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.33.0" }, "container runtimes",
			Warn,
		},
		{"Cilium", plan, func(f *facts) { f.daemons = []appsv1.DaemonSet{daemon("kube-system", "cilium")} }, "other network plugins", Refuse},
		{
			"Antrea", plan, func(f *facts) { f.daemons = []appsv1.DaemonSet{daemon("kube-system", "antrea-agent")} }, "other network plugins",
			Refuse,
		},
		{
			"other daemons", plan, func(f *facts) { f.daemons = []appsv1.DaemonSet{daemon("kube-system", "kube-proxy")} }, "other network plugins",
			OK,
		},
		{
			"what Flannel left", plan, func(f *facts) { f.nodes[0].Annotations["flannel.alpha.coreos.com/backend-type"] = "vxlan" },
			"other network plugins", Warn,
		},
		{"two control plane nodes", plan, func(f *facts) { delete(f.nodes[0].Labels, controlPlaneLabel) }, "control plane nodes", Refuse},
		{"one is enough for the controller", ownOVN, func(f *facts) { f.nodes = f.nodes[:1] }, "control plane nodes", OK},
		{"four control plane nodes", plan, func(f *facts) { f.nodes = append(f.nodes, node("d", "192.0.2.4")) }, "control plane nodes", Refuse},
		{
			"other Services", plan, func(f *facts) { f.services.services = []netip.Prefix{netip.MustParsePrefix("172.20.0.0/16")} },
			"Services' ranges", Refuse,
		},
		{
			"wider Services", plan, func(f *facts) { f.services.services = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, "Services' ranges",
			Refuse,
		},
		{"pods where nodes are", overlapping, func(*facts) {}, "Networks' ranges", Refuse},
		{"a node where pods are", plan, func(f *facts) { f.nodes[0].Status.Addresses[0].Address = "10.244.0.9" }, "Networks' ranges", Refuse},
		{
			"a node where Services are", withoutNodes, func(f *facts) { f.nodes[0].Status.Addresses[0].Address = "10.96.0.9" }, "Networks' ranges",
			Refuse,
		},
		{"a node elsewhere", plan, func(f *facts) { f.nodes[0].Status.Addresses[0].Address = "198.51.100.1" }, "nodes' ranges", Refuse},
		{"an API server where nodes are", plan, func(f *facts) { f.api = []netip.Addr{netip.MustParseAddr("192.0.2.9")} }, "nodes' ranges", OK},
		{"an API server elsewhere", plan, func(f *facts) { f.api = []netip.Addr{netip.MustParseAddr("198.51.100.9")} }, "nodes' ranges", Warn},
		{"an API server and a node elsewhere", plan, func(f *facts) {
			f.api, f.nodes[0].Status.Addresses[0].Address = []netip.Addr{netip.MustParseAddr("198.51.100.9")}, "198.51.100.1"
		}, "nodes' ranges", Refuse},
		{"no nodes' ranges", withoutNodes, func(*facts) {}, "nodes' ranges", Warn},
		{"another range of pods", plan, func(f *facts) { f.nodes[0].Spec.PodCIDRs = []string{"10.8.1.0/24"} }, "ranges of nodes' pods", Warn},
		{"the same range of pods", plan, func(f *facts) { f.nodes[0].Spec.PodCIDRs = []string{"10.244.1.0/24"} }, "ranges of nodes' pods", OK},
		{"nodes where faces are", nodesInFaces, func(f *facts) { f.nodes = nil }, "nodes' ranges", Refuse},
		{"a privileged pod", plan, func(f *facts) { f.pods = privileged("shop") }, "Pod Security of pods", Warn},
		{"one that has ended", plan, func(f *facts) {
			f.pods = privileged("shop")
			f.pods[0].Status.Phase = corev1.PodFailed
		}, "Pod Security of pods", OK},
		{"one where a level is named", plan, func(f *facts) {
			f.pods, f.namespaces = privileged("shop"), []corev1.Namespace{
				{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}},
			}
		}, "Pod Security of pods", OK},
		{"one of the infrastructure", plan, func(f *facts) {
			f.pods, f.namespaces = privileged("shop"), []corev1.Namespace{
				{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"atoll.dev/infrastructure": "true"}}},
			}
		}, "Pod Security of pods", OK},
		{"one of Kubernetes", plan, func(f *facts) { f.pods = privileged("kube-system") }, "Pod Security of pods", OK},
	} {
		f := good()
		test.change(&f)
		found := false
		for _, c := range f.judge(test.plan) {
			if c.Name != test.check {
				continue
			}
			found = true
			if c.Verdict != test.want {
				t.Errorf("%s: got %+v, want %s", test.what, c, test.want)
			}
			if c.Verdict != OK && c.Next == "" {
				t.Errorf("%s: %+v does not say what to do", test.what, c)
			}
		}
		if !found {
			t.Errorf("%s: there is no check %q", test.what, test.check)
		}
	}
}
