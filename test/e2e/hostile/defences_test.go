//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
)

// rows is a defence of the northbound database: commands of ovn-nbctl that take it out while no controller is there to
// write it again. The controller puts it back as soon as it starts.
func rows(name string, command ...string) defence {
	return defence{name: name, out: func(t *testing.T) func() {
		t.Helper()
		controller := cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"}
		start := env.Stop(t, controller)
		env.NBCtl(t, append([]string{"--wait=hv"}, command...)...)
		return start
	}}
}

// onNode is a defence that the agent of a node keeps up: commands on the node take it out while there is no agent. The agent puts
// it back as soon as it starts.
func onNode(node string, commands ...[]string) defence {
	return defence{name: fmt.Sprintf("rules of node %s", node), out: func(t *testing.T) func() {
		t.Helper()
		agent := cluster.Daemon{Place: node, Name: "atoll-agent"}
		start := env.Stop(t, agent)
		for _, command := range commands {
			if out, err := env.Box.Exec(t.Context(), node, command...); err != nil {
				t.Fatalf("%q on %s: %v\n%s", command, node, err, out)
			}
		}
		return start
	}}
}

// together are defences that are one: any of them holds alone.
func together(name string, parts ...defence) defence {
	return defence{name: name, out: func(t *testing.T) func() {
		t.Helper()
		var back []func()
		for _, part := range parts {
			back = append(back, part.out(t))
		}
		return func() {
			for _, b := range slices.Backward(back) {
				b()
			}
		}
	}}
}

// policy is an admission policy of dist/admission. What is taken out is its binding, without which it judges nothing.
func policy(name string) defence {
	return defence{name: "the admission policy " + name, out: func(t *testing.T) func() {
		t.Helper()
		bindings := env.Clients.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		binding, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		return func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			binding.ResourceVersion, binding.UID = "", ""
			if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
				t.Errorf("make the binding %s again: %v", name, err)
			}
		}
	}}
}

// spec is a field of a Network's: open takes the defence out of it.
func spec(field, network string, open func(*v1alpha1.NetworkSpec)) defence {
	return defence{name: "spec." + field + " of Network " + network, out: func(t *testing.T) func() {
		t.Helper()
		var before v1alpha1.NetworkSpec
		env.ChangeNetwork(t, network, func(s *v1alpha1.NetworkSpec) {
			before = *s.DeepCopy()
			open(s)
		})
		return func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			for {
				err := env.TryChangeNetwork(ctx, network, func(s *v1alpha1.NetworkSpec) { *s = before })
				if err == nil {
					return
				}
				if err := pause(ctx, err); err != nil {
					t.Errorf("shut Network %s again: %v", network, err)
					return
				}
			}
		}
	}}
}

// labelled is a defence that a namespace's label is, which only those may write who may update Networks. It is taken out by
// giving the label another value; an empty one takes the label away.
func labelled(name, namespace, key, value string) defence {
	set := func(ctx context.Context, value string) error {
		change := key + "-"
		if value != "" {
			change = key + "=" + value
		}
		out, err := env.Program(ctx, "kubectl", "label", "--overwrite", "namespace", namespace, change).CombinedOutput()
		if err != nil {
			return fmt.Errorf("label namespace %s %s: %w\n%s", namespace, change, err, out)
		}
		return nil
	}
	return defence{name: name, out: func(t *testing.T) func() {
		t.Helper()
		before, err := env.Clients.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set(t.Context(), value); err != nil {
			t.Fatal(err)
		}
		return func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if err := set(ctx, before.Labels[key]); err != nil {
				t.Error(err)
			}
		}
	}}
}
