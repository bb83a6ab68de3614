package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	testcore "k8s.io/client-go/testing"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// record is what the members of both databases write down.
func record(nodes ...string) *core.ConfigMap {
	text := `{"clusterID":"4c4d0b33-1111-4111-8111-000000000001","members":[`
	for i, node := range nodes {
		if i > 0 {
			text += ","
		}
		text += `{"node":"` + node + `","address":"192.0.2.` + node[1:] + `","serverID":"00000000-1111-4111-8111-00000000000` + node[1:] + `"}`
	}
	text += `]}`
	return &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Namespace: shutout.Namespace, Name: central.RecordName}, Data: map[string]string{"nb": text, "sb": text},
	}
}

func secret(namespace, name, kind string) *core.Secret {
	return &core.Secret{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name, UID: "old", CreationTimestamp: meta.NewTime(time.Now().Add(-time.Hour))},
		Type:       core.SecretType(kind), Data: map[string][]byte{"tls.crt": []byte("old")},
	}
}

func pod(namespace, name, node string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}, Spec: core.PodSpec{NodeName: node},
		Status: core.PodStatus{Phase: core.PodRunning},
	}
}

// cluster has nodes n1 to n3, each with a member, a switch and a pod.
func cluster(t *testing.T, members ...string) *fake.Clientset {
	t.Helper()
	objects := []runtime.Object{
		record(members...), secret(shutout.Namespace, "atoll-ca-central", "atoll.dev/certificate-authority"), secret(shutout.Namespace,
			"atoll-ca-node", "atoll.dev/certificate-authority"),
		secret(shutout.Namespace, "atoll-ca-agent", "atoll.dev/certificate-authority"), secret("kube-system", "bootstrap-token-abc",
			"bootstrap.kubernetes.io/token"),
		&core.ConfigMap{
			ObjectMeta: meta.ObjectMeta{Namespace: shutout.Namespace, Name: certs.ConfigMapName},
			Data:       map[string]string{"central.crt": "old", "node.crt": "old", "agent.crt": "old"},
		},
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		p, s := pod("red", "web-"+node, node), pod(shutout.Namespace, "switch-"+node, node)
		p.Spec.Volumes = []core.Volume{
			{VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: "files"}}},
			{
				VolumeSource: core.VolumeSource{
					Projected: &core.ProjectedVolumeSource{
						Sources: []core.VolumeProjection{{Secret: &core.SecretProjection{LocalObjectReference: core.LocalObjectReference{Name: "part"}}}},
					},
				},
			},
		}
		p.Spec.ImagePullSecrets = []core.LocalObjectReference{{Name: "registry"}}
		p.Spec.InitContainers = []core.Container{
			{EnvFrom: []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: core.LocalObjectReference{Name: "all"}}}}},
		}
		p.Spec.Containers = []core.Container{
			{
				Env: []core.EnvVar{
					{ValueFrom: &core.EnvVarSource{SecretKeyRef: &core.SecretKeySelector{LocalObjectReference: core.LocalObjectReference{Name: "one"}}}},
				},
			},
		}
		s.Labels = map[string]string{"app.kubernetes.io/name": central.NodesName}
		objects = append(objects, &core.Node{ObjectMeta: meta.ObjectMeta{Name: node}}, p, s)
	}
	deny := admission.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: shutout.Name, ValidationActions: []admission.ValidationAction{admission.Deny},
		ParamRef: &admission.ParamRef{Namespace: shutout.Namespace, Name: shutout.Name},
	}
	objects = append(objects, &admission.ValidatingAdmissionPolicy{ObjectMeta: meta.ObjectMeta{Name: shutout.Name}},
		&admission.ValidatingAdmissionPolicyBinding{ObjectMeta: meta.ObjectMeta{Name: shutout.Name}, Spec: deny})
	client := fake.NewClientset(objects...)
	// The fake stores what is only tried, and dates nothing.
	client.PrependReactor("create", "configmaps", func(a testcore.Action) (bool, runtime.Object, error) {
		create := a.(testcore.CreateActionImpl)
		if len(create.CreateOptions.DryRun) == 0 {
			return false, nil, nil
		}
		dated := create.Object.DeepCopyObject().(*core.ConfigMap)
		dated.CreationTimestamp = meta.Now()
		return true, dated, nil
	})
	// The fake looks at no field selector.
	client.PrependReactor("list", "pods", func(a testcore.Action) (bool, runtime.Object, error) {
		node, only := a.(testcore.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		if !only {
			return false, nil, nil
		}
		all, err := client.Tracker().List(core.SchemeGroupVersion.WithResource("pods"), core.SchemeGroupVersion.WithKind("Pod"), "")
		if err != nil {
			return true, nil, err
		}
		list := all.(*core.PodList).DeepCopy()
		list.Items = slices.DeleteFunc(list.Items, func(p core.Pod) bool { return p.Spec.NodeName != node })
		return true, list, nil
	})
	return client
}

// TestLook: a plan names all that the node has had, and there is none that ends the databases.
func TestLook(t *testing.T) {
	t.Parallel()
	p, err := Look(t.Context(), cluster(t, "n1", "n2", "n3"), "n3")
	if err != nil {
		t.Fatal(err)
	}
	if !p.There || !p.Since.IsZero() || p.OwnOVN || p.ControlPlane || p.TokensUnknown != nil || p.Unguarded != "" || len(p.Databases) != 2 ||
		!slices.Equal(p.Pods, []string{"atoll-system/switch-n3", "red/web-n3"}) ||
		!slices.Equal(p.Tokens, []string{"kube-system/bootstrap-token-abc"}) ||
		!slices.Equal(p.Secrets, []string{"red/all", "red/files", "red/one", "red/part", "red/registry"}) {
		t.Errorf("%+v", p)
	}
	if _, err := Look(t.Context(), cluster(t, "n3"), "n3"); !errors.Is(err, errOnlyMember) {
		t.Errorf("the node has the only member: %v", err)
	}
	if p, err := Look(t.Context(), cluster(t, "n1", "n2"), "n9"); err != nil || p.There || len(p.Pods)+len(p.Databases)+len(p.Secrets) > 0 {
		t.Errorf("a node that is not there: %+v, %v", p, err)
	}
}

// others are what the controller, the other nodes and the other members do.
type others struct {
	client  *fake.Clientset
	mu      sync.Mutex
	chassis []string
}

// act does the next thing that there is to do for others, when what it waits for is done.
func (o *others) act(t *testing.T, said string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	switch {
	case strings.Contains(said, "to make authority"):
		object, err := o.client.CoreV1().ConfigMaps(shutout.Namespace).Get(ctx, certs.ConfigMapName, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []certs.Kind{certs.Central, certs.Node, certs.Agent} {
			if _, err := o.client.CoreV1().Secrets(shutout.Namespace).Get(ctx, kind.Secret(), meta.GetOptions{}); err == nil {
				continue
			}
			fresh := secret(shutout.Namespace, kind.Secret(), "")
			fresh.CreationTimestamp, fresh.Data["tls.crt"] = meta.NewTime(time.Now().Add(time.Second)), []byte("new "+string(kind))
			if err := o.client.Tracker().Add(fresh); err != nil {
				t.Fatal(err)
			}
			object.Data[kind.Bundle()] = "new " + string(kind)
		}
		if _, err := o.client.CoreV1().ConfigMaps(shutout.Namespace).Update(ctx, object, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	case strings.Contains(said, "waiting for 2 nodes"), strings.Contains(said, "waiting for 1 nodes"):
		node := said[strings.Index(said, ", ")+2:][:2]
		if err := o.client.Tracker().Add(&certificates.CertificateSigningRequest{
			ObjectMeta: meta.ObjectMeta{Name: "of-" + node, CreationTimestamp: meta.NewTime(time.Now().Add(2 * time.Second))},
			Spec: certificates.CertificateSigningRequestSpec{
				SignerName: certs.SignerNode, Username: "system:serviceaccount:atoll-system:atoll-ovn-node",
				Extra: map[string]certificates.ExtraValue{"authentication.kubernetes.io/node-name": {node}},
			},
			Status: certificates.CertificateSigningRequestStatus{Certificate: []byte("x")},
		}); err != nil {
			t.Fatal(err)
		}
	case strings.Contains(said, "the other members"):
		if _, err := o.client.CoreV1().ConfigMaps(shutout.Namespace).Update(ctx, record("n1", "n2"), meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	case strings.Contains(said, "delete the chassis"):
		o.mu.Lock()
		o.chassis = []string{"n1", "n2"}
		o.mu.Unlock()
	}
}

// TestRunAfterTheMemberHasGone: the central authority is made anew although the record of the databases does not name the node
// any more. The command was cut short after the node was listed, or the thief took the node out of the record.
func TestRunAfterTheMemberHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, "n1", "n2")
		o := &others{client: client, chassis: []string{"n1", "n2"}}
		plan, err := Look(t.Context(), client, "n3")
		if err != nil {
			t.Fatal(err)
		}
		r := Runner{Client: client, Chassis: func(context.Context) ([]string, error) { return []string{"n1", "n2"}, nil }, Say: func(p Progress) {
			if !p.Done {
				o.act(t, p.Text)
			}
		}}
		if err := r.Run(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []certs.Kind{certs.Central, certs.Node, certs.Agent} {
			now, err := client.CoreV1().Secrets(shutout.Namespace).Get(t.Context(), kind.Secret(), meta.GetOptions{})
			if err != nil || string(now.Data["tls.crt"]) == "old" {
				t.Errorf("authority %s is the one of before: %v", kind, err)
			}
		}
	})
}

// TestRun: each stage waits for what it is about, the list is written before anything is taken away, and all is done once more
// without harm.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, runs)
}

func runs(t *testing.T) {
	client := cluster(t, "n1", "n2", "n3")
	o := &others{client: client, chassis: []string{"n1", "n2", "n3"}}
	plan, err := Look(t.Context(), client, "n3")
	if err != nil {
		t.Fatal(err)
	}
	var waited []string
	r := Runner{
		Client: client,
		Chassis: func(context.Context) ([]string, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			return slices.Clone(o.chassis), nil
		},
		Say: func(p Progress) {
			if !p.Done {
				waited = append(waited, p.Text)
				o.act(t, p.Text)
			}
		},
	}
	for range 2 {
		if err := r.Run(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"waiting until 2 pods have gone", "make authority node anew", "waiting for 2 nodes, n1 first", "waiting for 1 nodes, n2 first",
		"remove that of nb and sb", "delete the chassis",
	} {
		if n := len(slices.DeleteFunc(slices.Clone(waited), func(said string) bool { return !strings.Contains(said, want) })); n != 1 {
			t.Errorf("%d times it waits for %q: %q", n, want, waited)
		}
	}
	var order []string
	for _, a := range client.Actions() {
		if a.Matches("create", "configmaps") || a.Matches("delete", "secrets") || a.Matches("delete", "nodes") || a.Matches("delete", "pods") {
			order = append(order, a.GetVerb()+" "+a.GetResource().Resource)
		}
	}
	if order = slices.Compact(order); !slices.Equal(order[:4], []string{
		"create configmaps", "delete secrets", "delete nodes", "delete pods",
	}) {
		t.Errorf("it does %q", order)
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), meta.ListOptions{})
	if err != nil || len(pods.Items) != 4 {
		t.Errorf("%d pods are left, %v", len(pods.Items), err)
	}
}
