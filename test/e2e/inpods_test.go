//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestInPods: what dist/dns, dist/agent and dist/controller ship runs in pods as they are written, with the rights of their ServiceAccounts,
// while the sandbox's own daemons are away: one answers for names, one starts pods and tells of its node, one gives them addresses. While the
// DNS program's pod is replaced by another, as in an update of its DaemonSet, no question is lost.
//
// It runs alone: it takes daemons away, and counts single questions.
func TestInPods(t *testing.T) {
	const ns, node = "in-pods", "n3"
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	service := env.Service(t, ns, "client", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	name, address := "client."+ns+".svc.cluster.local", []netip.Addr{netip.MustParseAddr(service.Spec.ClusterIP)}
	client := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: node, App: "client"}))[0]
	away := func(d cluster.Daemon) {
		if err := env.Box.Stop(t.Context(), d.Place, d.Name); err != nil {
			t.Fatal(err)
		}
		env.StartAgain(t, d)
	}

	var names, agent appsv1.DaemonSet
	image := atollImage(t, node)
	shipped(t, "dns", node, image, &names, &names.Spec.Template)
	runs(t, &names, "daemonsets")
	away(cluster.Daemon{Place: node, Name: "atoll-dns"})
	env.Resolves(t, client, name, address)
	for _, load := range whileAsking(t, client, func() {
		env.Kubectl(t, "rollout", "restart", "daemonset", names.Name, "-n", names.Namespace)
		env.Kubectl(t, "rollout", "status", "daemonset", names.Name, "-n", names.Namespace, "--timeout=90s")
	}) {
		t.Logf("the pod is replaced: %d answers in %.1f s, longest %s", load.Answers, load.Seconds, load.Max)
		if len(load.Errors) > 0 || load.Answers < 100 {
			t.Errorf("while the pod is replaced: %d answers, failed: %v (%+v)", load.Answers, load.Errors, load.Failures)
		}
	}

	shipped(t, "agent", node, image, &agent, &agent.Spec.Template)
	away(cluster.Daemon{Place: node, Name: "atoll-agent"})
	reports := env.Clients.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("nodereports"))
	if err := reports.Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	runs(t, &agent, "daemonsets")
	cluster.Eventually(t, cluster.Patience, "the agent tells of its node", func(ctx context.Context) error {
		_, err := reports.Get(ctx, node, metav1.GetOptions{})
		return err
	})

	rules, err := env.Program(t.Context(), "kubectl", "exec", "-n", agent.Namespace, "ds/"+agent.Name, "--", "nft", "list", "ruleset").CombinedOutput()
	if err != nil || !strings.Contains(string(rules), "table ") {
		t.Errorf("nft in the agent's pod shows no rules of the node: %v\n%s", err, rules)
	}

	// The sandbox's control plane is no node: its database's socket is where the node's files are.
	var controller appsv1.Deployment
	shipped(t, "controller", node, image, &controller, &controller.Spec.Template)
	one := int32(1)
	controller.Spec.Replicas = &one
	socket := strings.TrimPrefix(env.Box.NBAddress(), "unix:")
	controller.Spec.Template.Spec.Volumes[0].HostPath.Path = filepath.Dir(socket)
	away(cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"})
	runs(t, &controller, "deployments")

	other := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "other", Node: node}))[0]
	env.Reach(t, other, client)
	env.Resolves(t, other, name, address)
}

// atollImage builds the image that make images makes, for this machine, and imports it on a node. It returns its name there.
func atollImage(t *testing.T, node string) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./images/release", "build", "-own", "-images=atoll", "-out="+dir)
	build.Dir = env.Options.Source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the image: %v\n%s", err, out)
	}
	out, err := env.Box.Exec(t.Context(), node, "ctr", "-n", "k8s.io", "images", "import", "--local", filepath.Join(dir, "atoll.tar"))
	if err != nil {
		t.Fatalf("import the image: %v\n%s", err, out)
	}
	names, err := env.Box.Exec(t.Context(), node, "ctr", "-n", "k8s.io", "images", "ls", "-q")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(names)) {
		if strings.HasPrefix(name, "ghcr.io/atoll-net/atoll:") {
			return name
		}
	}
	t.Fatalf("the node has only %s", names)
	return ""
}

// shipped reads what a directory of dist ships, and moves its pods to a node, where they run from the image.
func shipped(t *testing.T, which, node, image string, into any, template *corev1.PodTemplateSpec) {
	t.Helper()
	text, err := env.Program(t.Context(), "kubectl", "kustomize", "dist/"+which).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
	template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	template.Spec.Containers[0].Image = image
}

// runs makes a DaemonSet or a Deployment, which is deleted when the test ends, and waits until a pod of it is ready.
func runs(t *testing.T, object metav1.Object, resource string) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	objects := env.Clients.Dynamic.Resource(appsv1.SchemeGroupVersion.WithResource(resource)).Namespace(object.GetNamespace())
	if _, err := objects.Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		foreground := metav1.DeletePropagationForeground
		if err := objects.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Error(err)
		}
		for {
			if _, err := objects.Get(ctx, object.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) || ctx.Err() != nil {
				return
			}
			<-time.After(cluster.LookEvery)
		}
	})
	cluster.Eventually(t, cluster.ReadyWithin, "the pod of "+object.GetName(), func(ctx context.Context) error {
		list, err := env.Clients.Kube.CoreV1().Pods(object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + object.GetName()})
		if err != nil {
			return err
		}
		var states []string
		for _, p := range list.Items {
			if cluster.IsReady(&p) {
				return nil
			}
			states = append(states, fmt.Sprintf("%s is %s, %+v, last Event %s", p.Name, p.Status.Phase, p.Status.ContainerStatuses, env.Clients.LastEvent(ctx, &p)))
		}
		return fmt.Errorf("pods: %s", strings.Join(states, "; "))
	})
}
