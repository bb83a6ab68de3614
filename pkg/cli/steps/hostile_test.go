package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	testcore "k8s.io/client-go/testing"

	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// finalizing has deletions of what has finalizers only date it, as the API server does, and what is deleted go with its last finalizer.
func finalizing(client *fake.Clientset) {
	client.PrependReactor("delete", "nodes", func(a testcore.Action) (bool, runtime.Object, error) {
		name := a.(testcore.DeleteAction).GetName()
		object, err := client.Tracker().Get(core.SchemeGroupVersion.WithResource("nodes"), "", name)
		return err == nil && len(object.(*core.Node).Finalizers) > 0, nil, nil
	})
	client.PrependReactor("delete", "pods", func(a testcore.Action) (bool, runtime.Object, error) {
		d := a.(testcore.DeleteAction)
		object, err := client.Tracker().Get(core.SchemeGroupVersion.WithResource("pods"), d.GetNamespace(), d.GetName())
		return err == nil && len(object.(*core.Pod).Finalizers) > 0, nil, nil
	})
	client.PrependReactor("patch", "pods", func(a testcore.Action) (bool, runtime.Object, error) {
		p := a.(testcore.PatchAction)
		if !strings.Contains(string(p.GetPatch()), `"finalizers":null`) {
			return false, nil, nil
		}
		return true, &core.Pod{}, client.Tracker().Delete(core.SchemeGroupVersion.WithResource("pods"), p.GetNamespace(), p.GetName())
	})
}

// run shuts n3 out within a time, and returns what was said.
func run(t *testing.T, client *fake.Clientset, within time.Duration) (said []string, err error) {
	t.Helper()
	o := &others{client: client, chassis: []string{"n1", "n2", "n3"}}
	plan, err := Look(t.Context(), client, "n3")
	if err != nil {
		t.Fatal(err)
	}
	r := Runner{
		Client: client,
		Chassis: func(context.Context) ([]string, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			return slices.Clone(o.chassis), nil
		},
		Say: func(p Progress) {
			said = append(said, p.Text)
			if !p.Done {
				o.act(t, p.Text)
			}
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return said, r.Run(ctx, plan)
}

func says(said []string, what string) bool {
	return slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, what) })
}

// TestANodeThatDoesNotGo: a Node that a finalizer keeps is not said to be deleted.
func TestANodeThatDoesNotGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2", "n3")
		finalizing(client)
		kept := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n3", Finalizers: []string{"a.example/b"}}}
		if _, err := client.CoreV1().Nodes().Update(t.Context(), kept, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		said, err := run(t, client, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "a.example/b") || says(said, "new authorities are published") {
			t.Errorf("%v, %q", err, said)
		}
		kept.Finalizers = nil
		if _, err := client.CoreV1().Nodes().Update(t.Context(), kept, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if said, err := run(t, client, time.Minute); err != nil || !says(said, "have come back") {
			t.Errorf("without the finalizer: %v, %q", err, said)
		}
	})
}

// TestANodeThatComesBack: a Node that was registered anew meanwhile is deleted again at the end.
func TestANodeThatComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2", "n3")
		back := false
		client.PrependReactor("list", "certificatesigningrequests", func(testcore.Action) (bool, runtime.Object, error) {
			if !back {
				back = true
				if err := client.Tracker().Add(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n3"}}); err != nil {
					t.Error(err)
				}
			}
			return false, nil, nil
		})
		_, err := run(t, client, time.Minute)
		if _, gone := client.CoreV1().Nodes().Get(t.Context(), "n3", meta.GetOptions{}); err != nil || !back || !apierrors.IsNotFound(gone) {
			t.Errorf("%v, the Node: %v", err, gone)
		}
	})
}

// TestPodsThatDoNotGo: finalizers on pods, which their kubelet may write, are taken off when nobody else has done so in time.
func TestPodsThatDoNotGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2", "n3")
		finalizing(client)
		kept := pod("red", "web-n3", "n3")
		kept.Finalizers = []string{"a.example/b"}
		if _, err := client.CoreV1().Pods("red").Update(t.Context(), kept, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		said, err := run(t, client, time.Minute)
		if err != nil || !says(said, "pod red/web-n3 has not gone: finalizers a.example/b") {
			t.Errorf("%v, %q", err, said)
		}
		if took := time.Since(began); took < finalizersTime {
			t.Errorf("controllers had %s", took)
		}
		if pods, err := podsOf(t.Context(), client, "n3"); err != nil || len(pods) > 0 {
			t.Errorf("%d pods are left, %v", len(pods), err)
		}
	})
}

// TestTheClockIsTheAPIServers: authorities that were made after another shut-out, and before this one, are distrusted, although
// the clock of this machine is slow.
func TestTheClockIsTheAPIServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2", "n3")
		client.PrependReactor("create", "configmaps", func(a testcore.Action) (bool, runtime.Object, error) {
			create := a.(testcore.CreateActionImpl)
			if len(create.CreateOptions.DryRun) == 0 {
				return false, nil, nil
			}
			dated := create.Object.DeepCopyObject().(*core.ConfigMap)
			dated.CreationTimestamp = meta.NewTime(time.Now().Add(5 * time.Minute))
			return true, dated, nil
		})
		// One was made a minute before, one in the same second, by the API server's clock.
		for kind, before := range map[certs.Kind]time.Duration{certs.Node: time.Minute, certs.Agent: 0, certs.Central: time.Minute} {
			s := secret(shutout.Namespace, kind.Secret(), "")
			s.CreationTimestamp = meta.NewTime(time.Now().Add(5*time.Minute - before))
			if _, err := client.CoreV1().Secrets(shutout.Namespace).Update(t.Context(), s, meta.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r := Runner{Client: client, plan: Plan{Node: "n3"}}
		for _, stage := range []func(context.Context) (string, error){r.list, r.distrust} {
			if missing, err := stage(t.Context()); err != nil || missing != "" {
				t.Fatalf("%s, %v", missing, err)
			}
		}
		for _, kind := range authorities() {
			if _, err := client.CoreV1().Secrets(shutout.Namespace).Get(t.Context(), kind.Secret(), meta.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("authority %s is trusted on: %v", kind, err)
			}
		}
	})
}

// TestWithoutAClock: who does not know the time lists nobody.
func TestWithoutAClock(t *testing.T) {
	t.Parallel()
	client := cluster(t, "n1", "n2", "n3")
	client.PrependReactor("create", "configmaps", func(testcore.Action) (bool, runtime.Object, error) { return true, &core.ConfigMap{}, nil })
	r := Runner{Client: client, plan: Plan{Node: "n3"}}
	if _, err := r.list(t.Context()); err == nil {
		t.Error("it is listed")
	}
}

// TestWhatIsMissing: what keeps listed nodes from writing is looked at, each part of it.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*fake.Clientset) error{
		"there is no ValidatingAdmissionPolicy": func(c *fake.Clientset) error {
			return c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), shutout.Name, meta.DeleteOptions{})
		},
		"failurePolicy": func(c *fake.Clientset) error {
			ignore := admission.Ignore
			_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), &admission.ValidatingAdmissionPolicy{
				ObjectMeta: meta.ObjectMeta{Name: shutout.Name}, Spec: admission.ValidatingAdmissionPolicySpec{FailurePolicy: &ignore},
			}, meta.UpdateOptions{})
			return err
		},
		"there is no ValidatingAdmissionPolicyBinding": func(c *fake.Clientset) error {
			return c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), shutout.Name, meta.DeleteOptions{})
		},
		"does not deny": func(c *fake.Clientset) error {
			_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Update(
				t.Context(), &admission.ValidatingAdmissionPolicyBinding{
					ObjectMeta: meta.ObjectMeta{Name: shutout.Name}, Spec: admission.ValidatingAdmissionPolicyBindingSpec{
						PolicyName: shutout.Name, ValidationActions: []admission.ValidationAction{admission.Audit},
						ParamRef: &admission.ParamRef{Namespace: shutout.Namespace, Name: shutout.Name},
					},
				}, meta.UpdateOptions{})
			return err
		},
	} {
		client := cluster(t, "n1", "n2", "n3")
		if err := spoil(client); err != nil {
			t.Fatal(err)
		}
		if p, err := Look(t.Context(), client, "n3"); err != nil || !strings.Contains(p.Unguarded, what) {
			t.Errorf("%s: %q, %v", what, p.Unguarded, err)
		}
	}
}

// TestAConfigMapThatIsMissing: certificates' bundle was deleted by hand. That is not taken for a cluster whose certificates Atoll
// does not make.
func TestAConfigMapThatIsMissing(t *testing.T) {
	t.Parallel()
	client := cluster(t, "n1", "n2", "n3")
	if err := client.CoreV1().ConfigMaps(shutout.Namespace).Delete(t.Context(), certs.ConfigMapName, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r := Runner{Client: client, plan: Plan{Node: "n3"}, since: time.Now()}
	_, err := r.distrust(t.Context())
	if missing, missed := r.published(t.Context()); err != nil || missed != nil || !strings.Contains(missing, certs.ConfigMapName) {
		t.Errorf("%q, %v, %v", missing, err, missed)
	}
	never := Runner{Client: fake.NewClientset(), plan: Plan{Node: "n3"}}
	_, err = never.distrust(t.Context())
	if missing, missed := never.published(t.Context()); missing != "" || err != nil || missed != nil {
		t.Errorf("without authorities: %q, %v, %v", missing, err, missed)
	}
}

// TestCalledAgain: an hour later Kubernetes has forgotten the requests for certificates, and a node is down: neither holds the command up.
func TestCalledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2", "n3")
		ready := func(node string, nodeReady, podReady core.ConditionStatus) {
			n := &core.Node{
				ObjectMeta: meta.ObjectMeta{Name: node}, Status: core.NodeStatus{
					Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: nodeReady}},
				},
			}
			_, err := client.CoreV1().Nodes().Update(t.Context(), n, meta.UpdateOptions{})
			p, missing := client.CoreV1().Pods(shutout.Namespace).Get(t.Context(), "switch-"+node, meta.GetOptions{})
			p.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: podReady}}
			_, failed := client.CoreV1().Pods(shutout.Namespace).Update(t.Context(), p, meta.UpdateOptions{})
			if err := errors.Join(err, missing, failed); err != nil {
				t.Fatal(err)
			}
		}
		ready("n1", core.ConditionTrue, core.ConditionTrue)
		ready("n2", core.ConditionUnknown, core.ConditionFalse)
		said, err := run(t, client, time.Minute)
		if err != nil || !says(said, "waiting for 1 nodes, n1 first") || !says(said, "not waited for, since they are not Ready: n2") {
			t.Errorf("%v, %q", err, said)
		}
		<-time.After(time.Hour)
		if err := client.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), "of-n1", meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if said, err := run(t, client, time.Minute); err != nil || says(said, "waiting for 1 nodes") {
			t.Errorf("called again: %v, %q", err, said)
		}
		// A pod that is not Ready on a node that is: it may have no certificate.
		ready("n1", core.ConditionTrue, core.ConditionFalse)
		r := Runner{Client: client, plan: Plan{Node: "n3"}, now: time.Now()}
		if missing, err := r.renewed(t.Context()); err != nil || !strings.Contains(missing, "n1 first") {
			t.Errorf("%q, %v", missing, err)
		}
	})
}
