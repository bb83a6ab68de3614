package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// uninstallingTaint keeps new pods from nodes that are losing their network.
const uninstallingTaint = "atoll.dev/uninstalling"

// shownPods is how many of many names are shown.
const shownPods = 3

var (
	apiServiceKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
	sliceKind      = schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}
	requestKind    = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}
)

// installedKinds are the kinds that any version of the manifests has, for an installation that `kubectl apply` made.
var installedKinds = []schema.GroupKind{
	configMaps,
	{Kind: "Service"},
	{Kind: "ServiceAccount"},
	namespaces, crds, daemonSetKind, deploymentKind,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "policy", Kind: "PodDisruptionBudget"},
}

// ErrHanging is the error of an uninstallation that something is in the way of.
var ErrHanging = errors.New("something hangs on Atoll")

// Removal is an uninstallation: what is installed, and what hangs on it.
type Removal struct {
	// Hanging is what is in the way.
	Hanging []Hanging
	// LeaveNorthbound: Atoll's rows stay in a northbound database that is not Atoll's.
	LeaveNorthbound bool
	members         []unstructured.Unstructured
}

// RemovalSteps is how many steps Remove takes.
const RemovalSteps = 10

// PlanRemoval looks at what is installed. An error says that nothing is.
func PlanRemoval(ctx context.Context, c *Cluster) (*Removal, error) {
	old, err := c.readRecord(ctx)
	if err != nil {
		return nil, err
	}
	where := record{kinds: installedKinds, namespaces: []string{metav1.NamespaceSystem}}
	if old != nil {
		where.kinds, where.namespaces = append(slices.Clone(old.kinds), where.kinds...), append(where.namespaces, old.namespaces...)
	}
	members, err := c.members(ctx, where)
	if err != nil {
		return nil, err
	}
	labelled, err := c.labelled(ctx, where, partOfLabel+"="+partOf)
	if err != nil {
		return nil, err
	}
	r := &Removal{}
	seen := map[identity]bool{}
	for _, o := range append(members, labelled...) {
		if id := identityOf(&o); !seen[id] {
			seen[id] = true
			r.members = append(r.members, o)
		}
	}
	// What is half removed has a namespace, at least.
	ns, err := c.get(ctx, namespaces, "", system)
	if err != nil {
		return nil, err
	}
	if len(r.members) == 0 && ns == nil {
		return nil, errors.New( //nolint:staticcheck // a name
			"Atoll is not installed in this cluster: there is no namespace " + system + ", and nothing with the label " + partOfLabel + "=" + partOf)
	}
	h, err := c.hanging(ctx, r.members)
	r.Hanging = h.all
	return r, err
}

// Remove removes Atoll from the cluster and its nodes, together with what depends on it: check the Removal first. It can be
// repeated, and continues where it failed.
func Remove(ctx context.Context, c *Cluster, r *Removal, timeout time.Duration, steps Steps) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cleaner, err := c.cleanerFor(ctx, r)
	if err != nil {
		return err
	}
	if r.LeaveNorthbound {
		cleaner.rows = ""
	}
	onNodes, others := workloadsOf(r.members)
	for _, s := range []struct {
		title string
		do    func() error
	}{
		{"what asks Atoll", func() error { return c.removeAPIServices(ctx) }},
		{"no new pods on nodes", func() error { return c.taint(ctx, true) }},
		// While agents run: they take pods off the network. Without a controller no new pod gets on it.
		{"controller", func() error { return c.removeAndWait(ctx, steps, others) }},
		{"pods on Atoll's network", func() error { return c.removeHanging(ctx, steps, r.members) }},
		{"rows in the northbound database", func() error { return c.cleanNorthbound(ctx, steps, cleaner) }},
		{"programs on nodes", func() error { return c.removeAndWait(ctx, steps, onNodes) }},
		{"clean nodes", func() error { return c.cleanNodes(ctx, steps, cleaner) }},
		{"admission policies", func() error { return c.removeAll(ctx, ofStage(r.members, policies)) }},
		{"Networks, settings and definitions", func() error { return c.removeKinds(ctx, steps, r.members) }},
		{"rights and namespace", func() error { return c.removeRest(ctx, steps, r.members) }},
	} {
		if err := steps.Do(s.title, s.do); err != nil {
			return fmt.Errorf("remove %s: %w; call it again to go on", s.title, err)
		}
	}
	return nil
}

// workloadsOf splits workloads into those of nodes, which are DaemonSets of ours, and others.
func workloadsOf(members []unstructured.Unstructured) (onNodes, others []*unstructured.Unstructured) {
	for i := range members {
		switch o := &members[i]; {
		case !isWorkload(o), o.GetName() == cleanerName:
		case isKind(o, "apps", "DaemonSet") && o.GetNamespace() == system:
			onNodes = append(onNodes, o)
		default:
			others = append(others, o)
		}
	}
	return onNodes, others
}

func ofStage(members []unstructured.Unstructured, want stage) (out []*unstructured.Unstructured) {
	for i := range members {
		if stageOf(&members[i]) == want {
			out = append(out, &members[i])
		}
	}
	// Bindings first: without them no policy says anything.
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return -cmp.Compare(a.GetKind(), b.GetKind()) })
	return out
}

func (c *Cluster) removeAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := c.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// removeAPIServices removes what leads to programs of Atoll. An APIService without its server makes the API server slow, and
// namespaces are never deleted.
func (c *Cluster) removeAPIServices(ctx context.Context) error {
	found, err := c.list(ctx, apiServiceKind, "", "")
	if err != nil {
		return err
	}
	for i := range found {
		group, _, _ := unstructured.NestedString(found[i].Object, "spec", "group")
		ns, _, _ := unstructured.NestedString(found[i].Object, "spec", "service", "namespace")
		if strings.HasSuffix(group, ".atoll.dev") && ns == system {
			if err := c.remove(ctx, &found[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// taint keeps new pods from all nodes, or lets them there again.
func (c *Cluster) taint(ctx context.Context, present bool) error {
	nodes, err := listAs[corev1.Node](ctx, c, nodeKind, "", "")
	if err != nil {
		return err
	}
	in, err := c.of(nodeKind, "")
	if err != nil {
		return err
	}
	for _, n := range nodes {
		taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == uninstallingTaint })
		if present {
			taints = append(taints, corev1.Taint{Key: uninstallingTaint, Effect: corev1.TaintEffectNoSchedule})
		}
		if len(taints) == len(n.Spec.Taints) {
			continue
		}
		// The list is written as a whole: if somebody changes it meanwhile, the server refuses.
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, "spec": map[string]any{"taints": taints},
		})
		if err != nil {
			return fmt.Errorf("write taints of node %s: %w", n.Name, err)
		}
		_, err = in.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		if apierrors.IsConflict(err) {
			return c.taint(ctx, present)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taint node %s: %w", n.Name, err)
		}
	}
	return nil
}

// removeAndWait removes workloads, and waits until their pods are gone.
func (c *Cluster) removeAndWait(ctx context.Context, steps Steps, workloads []*unstructured.Unstructured) error {
	if err := c.removeAll(ctx, workloads); err != nil {
		return err
	}
	return until(ctx, steps, func() (string, error) {
		var there []string
		for _, w := range workloads {
			match, _, _ := unstructured.NestedStringMap(w.Object, "spec", "selector", "matchLabels")
			pods, err := listAs[corev1.Pod](ctx, c, podKind, w.GetNamespace(), metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: match}))
			if err != nil {
				return "", err
			}
			for _, p := range pods {
				there = append(there, p.Name+" on "+p.Spec.NodeName)
			}
		}
		return some(there, "are still there"), nil
	})
}

// some is the first few of many; empty for none.
func some(names []string, what string) string {
	if len(names) == 0 {
		return ""
	}
	text := strings.Join(names[:min(len(names), shownPods)], ", ")
	if more := len(names) - shownPods; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " " + what
}

// removeHanging removes the pods that Atoll connects.
func (c *Cluster) removeHanging(ctx context.Context, steps Steps, members []unstructured.Unstructured) error {
	// Some may have come since it was asked.
	h, err := c.hanging(ctx, members)
	if err != nil {
		return err
	}
	return c.removePods(ctx, steps, h.pods)
}

// removePods removes pods, and waits until they are gone. Their controllers make others, which wait for a node with a network.
func (c *Cluster) removePods(ctx context.Context, steps Steps, pods []corev1.Pod) error {
	for _, p := range pods {
		in, err := c.of(podKind, p.Namespace)
		if err != nil {
			return err
		}
		err = in.Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete Pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return until(ctx, steps, func() (string, error) {
		now, err := listAs[corev1.Pod](ctx, c, podKind, "", "")
		if err != nil {
			return "", err
		}
		left := map[types.UID]bool{}
		for _, p := range now {
			left[p.UID] = true
		}
		var there []string
		for _, p := range pods {
			if left[p.UID] {
				there = append(there, p.Namespace+"/"+p.Name)
			}
		}
		return some(there, "are still there"), nil
	})
}

// removeKinds removes all objects of Atoll's kinds, whose finalizers nobody answers for any more, and the definitions.
func (c *Cluster) removeKinds(ctx context.Context, steps Steps, members []unstructured.Unstructured) error {
	var definitions []*unstructured.Unstructured
	for i := range members {
		if isKind(&members[i], crds.Group, crds.Kind) {
			definitions = append(definitions, &members[i])
		}
	}
	for _, crd := range definitions {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		found, err := c.list(ctx, schema.GroupKind{Group: group, Kind: kind}, "", "")
		if err != nil {
			return err
		}
		for i := range found {
			if err := c.strip(ctx, &found[i]); err != nil {
				return err
			}
		}
	}
	if err := c.removeAll(ctx, definitions); err != nil {
		return err
	}
	return c.waitGone(ctx, steps, definitions)
}

// strip takes away the finalizers of an object, and deletes it.
func (c *Cluster) strip(ctx context.Context, o *unstructured.Unstructured) error {
	if len(o.GetFinalizers()) > 0 {
		in, err := c.where(o)
		if err != nil {
			return err
		}
		_, err = in.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{FieldManager: manager})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take away the finalizers of %s: %w", nameOf(o), err)
		}
	}
	return c.remove(ctx, o)
}

func (c *Cluster) waitGone(ctx context.Context, steps Steps, objects []*unstructured.Unstructured) error {
	return until(ctx, steps, func() (string, error) {
		var there []string
		for _, o := range objects {
			now, err := c.get(ctx, o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName())
			if err != nil {
				return "", err
			}
			if now != nil {
				there = append(there, now.GetName())
			}
		}
		return some(there, "are still there"), nil
	})
}

// removeRest removes what the controller has written on others' objects, all members that are left, the namespace, and at last the taint.
func (c *Cluster) removeRest(ctx context.Context, steps Steps, members []unstructured.Unstructured) error {
	if err := c.removeMarks(ctx); err != nil {
		return err
	}
	// By the kinds of members: mirrors of slices, roles of Tenants, requests for certificates.
	for _, made := range []struct {
		kind     schema.GroupKind
		selector map[string]string
	}{
		{sliceKind, map[string]string{"endpointslice.kubernetes.io/managed-by": intake.ManagedBy}},
		{schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}, intake.LabelsOfRoles()},
		{schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, intake.LabelsOfRoles()},
	} {
		found, err := c.list(ctx, made.kind, "", metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: made.selector}))
		if err != nil {
			return err
		}
		for i := range found {
			if err := c.remove(ctx, &found[i]); err != nil {
				return err
			}
		}
	}
	requests, err := c.list(ctx, requestKind, "", "")
	if err != nil {
		return err
	}
	for i := range requests {
		signer, _, _ := unstructured.NestedString(requests[i].Object, "spec", "signerName")
		if strings.HasPrefix(signer, "atoll.dev/") {
			if err := c.remove(ctx, &requests[i]); err != nil {
				return err
			}
		}
	}
	var last []*unstructured.Unstructured
	for i := range members {
		if o := &members[i]; isKind(o, "", namespaces.Kind) {
			last = append(last, o)
		} else if err := c.remove(ctx, o); err != nil {
			return err
		}
	}
	if len(last) == 0 {
		last = append(last, namespace())
	}
	if err := c.removeAll(ctx, last); err != nil {
		return err
	}
	if err := c.waitGone(ctx, steps, last); err != nil {
		return err
	}
	return c.taint(ctx, false)
}

func namespace() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": namespaces.Kind}}
	o.SetName(system)
	return o
}

// removeMarks removes the annotations that hold the controller's decisions from nodes and Services.
func (c *Cluster) removeMarks(ctx context.Context) error {
	for _, gk := range []schema.GroupKind{nodeKind, serviceKind} {
		found, err := c.list(ctx, gk, "", "")
		if err != nil {
			return err
		}
		for i := range found {
			o := &found[i]
			keys := decided(o.GetAnnotations())
			if len(keys) == 0 {
				continue
			}
			none := map[string]any{}
			for _, key := range keys {
				none[key] = nil
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": none}})
			if err != nil {
				return fmt.Errorf("write annotations of %s: %w", nameOf(o), err)
			}
			in, err := c.where(o)
			if err == nil {
				_, err = in.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
			}
			if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return fmt.Errorf("remove annotations %v of %s: %w", slices.Sorted(maps.Keys(none)), nameOf(o), err)
			}
		}
	}
	return nil
}
