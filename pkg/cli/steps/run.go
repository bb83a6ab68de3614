package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// Progress tells of a shut-out while it goes on.
type Progress struct {
	// Done: a stage is done, after Took. Else it waits, so long already.
	Done bool
	Took time.Duration
	// Text is the stage, or what it waits for.
	Text string
}

// Runner shuts a node out. Everything that it does may be done again: called anew after it was cut short, it goes on.
type Runner struct {
	Client kubernetes.Interface
	// Chassis names the chassis that the southbound database has.
	Chassis func(context.Context) ([]string, error)
	Say     func(Progress)

	plan Plan
	// now is the API server's time when the node was listed, or looked for on the list; since is when it was listed.
	now, since time.Time
	// made: an authority of Atoll's was there when those that have signed for the node were looked for.
	made bool
	// deleted says since when pods have been deleted, by UID.
	deleted map[types.UID]time.Time
}

// lookEvery is how often a stage that waits looks again.
const lookEvery = time.Second

// Run does what a plan says, and returns when the node has nothing any more.
func (r *Runner) Run(ctx context.Context, plan Plan) error {
	r.plan, r.deleted = plan, map[types.UID]time.Time{}
	listed := "the node is listed: it gets no certificate, and its kubelet writes nothing"
	if plan.Unguarded != "" {
		listed = "the node is listed: it gets no certificate"
	}
	for _, stage := range []struct {
		name string
		// do returns what is still missing; empty when the stage is done.
		do func(context.Context) (missing string, err error)
	}{
		{listed, r.list},
		{"authorities that have signed for the node are deleted", r.distrust},
		{"the Node and its pods are deleted, and their tokens with them", r.remove},
		{"new authorities are published", r.published},
		{"the node has no member of OVN's databases", r.memberless},
		{"the node has no chassis: other nodes have no tunnel to it", r.chassisless},
		{"the other nodes have certificates of these authorities", r.renewed},
		{"neither the Node nor pods of it have come back", r.remove},
	} {
		if err := r.stage(ctx, stage.name, stage.do); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) stage(ctx context.Context, name string, do func(context.Context) (string, error)) error {
	began, said := time.Now(), ""
	for {
		missing, err := do(ctx)
		if err != nil && ctx.Err() == nil {
			if apierrors.IsForbidden(err) {
				return fmt.Errorf("%s: %w", name, err)
			}
			missing = err.Error()
		}
		if missing == "" && err == nil {
			r.Say(Progress{Done: true, Text: name, Took: time.Since(began)})
			return nil
		}
		if missing != said {
			said = missing
			r.Say(Progress{Text: missing, Took: time.Since(began)})
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %s (call this again to go on)", name, said)
		case <-time.After(lookEvery):
		}
	}
}

func (r *Runner) list(ctx context.Context) (_ string, err error) {
	if r.now, err = shutout.Now(ctx, r.Client); err != nil {
		return "", err
	}
	r.since, err = shutout.Add(ctx, r.Client, r.plan.Node, r.now)
	return "", err
}

// authorities are all that may have signed for the node. Nothing says later whether the node had a member of the databases, or a
// controller: the other members remove its member as soon as the node is listed, and a thief with a member's rights can take the
// node out of the record before that.
func authorities() []certs.Kind { return []certs.Kind{certs.Node, certs.Agent, certs.Central} }

// distrust deletes authorities that are no younger than the list's entry: the controller makes others. Kubernetes' times have
// seconds, so one of the same second may have signed for the node before it was listed.
func (r *Runner) distrust(ctx context.Context) (string, error) {
	secrets := r.Client.CoreV1().Secrets(shutout.Namespace)
	for _, kind := range authorities() {
		secret, err := secrets.Get(ctx, kind.Secret(), meta.GetOptions{})
		r.made = r.made || !apierrors.IsNotFound(err)
		if apierrors.IsNotFound(err) || err == nil && secret.CreationTimestamp.After(r.since) {
			continue
		}
		if err == nil {
			err = secrets.Delete(ctx, kind.Secret(), meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &secret.UID}})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("delete Secret %s/%s: %w", shutout.Namespace, kind.Secret(), err)
		}
	}
	return "", nil
}

// remove deletes the Node first: else a DaemonSet would make its pods anew there.
func (r *Runner) remove(ctx context.Context) (string, error) {
	nodes := r.Client.CoreV1().Nodes()
	if err := nodes.Delete(ctx, r.plan.Node, meta.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("delete Node %s: %w", r.plan.Node, err)
	}
	pods, err := podsOf(ctx, r.Client, r.plan.Node)
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		if err := r.removePod(ctx, &pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if len(pods) > 0 {
		return fmt.Sprintf("waiting until %d pods have gone, %s/%s first", len(pods), pods[0].Namespace, pods[0].Name), nil
	}
	node, err := nodes.Get(ctx, r.plan.Node, meta.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Node %s: %w", r.plan.Node, err)
	case len(node.Finalizers) > 0:
		// They may be somebody's who has work to do, such as giving the machine back.
		return fmt.Sprintf("waiting until Node %s has gone: finalizers %s keep it. The node's kubelet may have written them; "+
			"take off those that nobody needs (kubectl edit node %s)", r.plan.Node, strings.Join(node.Finalizers, ", "), r.plan.Node), nil
	}
	return "waiting until Node " + r.plan.Node + " has gone", nil
}

// finalizersTime is how long controllers have to take their finalizers off a deleted pod.
const finalizersTime = 10 * time.Second

// removePod deletes a pod, and takes its finalizers off when they keep it for too long. A kubelet may write finalizers on its
// pods, and reads their Secrets as long as the pods are there.
func (r *Runner) removePod(ctx context.Context, pod *core.Pod) error {
	pods := r.Client.CoreV1().Pods(pod.Namespace)
	// Nobody on the node is asked whether the pod has ended.
	err := pods.Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &meta.Preconditions{UID: &pod.UID}})
	if err != nil || len(pod.Finalizers) == 0 {
		return err
	}
	since, is := r.deleted[pod.UID]
	if !is {
		r.deleted[pod.UID] = time.Now()
		return nil
	}
	if time.Since(since) < finalizersTime {
		return nil
	}
	r.Say(Progress{
		Took: time.Since(since), Text: fmt.Sprintf("pod %s/%s has not gone: finalizers %s are taken off", pod.Namespace, pod.Name,
			strings.Join(pod.Finalizers, ", ")),
	})
	_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, pod.UID),
		meta.PatchOptions{})
	return err
}

// published says what is missing until what is trusted is younger than the list's entry.
func (r *Runner) published(ctx context.Context) (string, error) {
	object, err := r.Client.CoreV1().ConfigMaps(shutout.Namespace).Get(ctx, certs.ConfigMapName, meta.GetOptions{})
	if apierrors.IsNotFound(err) && !r.made {
		return "", nil // Certificates are not made by Atoll here.
	}
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("waiting for the leading atoll-controller to write ConfigMap %s/%s", shutout.Namespace, certs.ConfigMapName), nil
	}
	if err != nil {
		return "", fmt.Errorf("read ConfigMap %s/%s: %w", shutout.Namespace, certs.ConfigMapName, err)
	}
	for _, kind := range authorities() {
		secret, err := r.Client.CoreV1().Secrets(shutout.Namespace).Get(ctx, kind.Secret(), meta.GetOptions{})
		made := !apierrors.IsNotFound(err)
		if err != nil && made {
			return "", fmt.Errorf("read Secret %s/%s: %w", shutout.Namespace, kind.Secret(), err)
		}
		if !made || !bytes.Equal(bytes.TrimSpace(secret.Data[core.TLSCertKey]), bytes.TrimSpace([]byte(object.Data[kind.Bundle()]))) {
			return fmt.Sprintf("waiting for the leading atoll-controller to make authority %s anew (it looks each minute)", kind), nil
		}
	}
	return "", nil
}

// requestsLast is for how long Kubernetes keeps answered requests for certificates at least: it deletes them an hour after their answer.
const requestsLast = 30 * time.Minute

// renewed says which nodes are still to get a certificate. Nodes that are not Ready are named and not waited for. Kubernetes
// forgets requests; when it may have, a pod that is Ready counts: it is connected, and to servers that have been started anew
// since.
func (r *Runner) renewed(ctx context.Context) (string, error) {
	authority, err := r.Client.CoreV1().Secrets(shutout.Namespace).Get(ctx, certs.Node.Secret(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Secret %s/%s: %w", shutout.Namespace, certs.Node.Secret(), err)
	}
	has, err := r.certified(ctx, authority.CreationTimestamp.Time)
	if err != nil {
		return "", err
	}
	pods, err := r.Client.CoreV1().Pods(shutout.Namespace).List(ctx, meta.ListOptions{
		LabelSelector: "app.kubernetes.io/name=" + central.NodesName,
	})
	if err != nil {
		return "", fmt.Errorf("list pods of DaemonSet %s: %w", central.NodesName, err)
	}
	away, err := r.notReady(ctx)
	if err != nil {
		return "", err
	}
	forgotten := r.now.Sub(authority.CreationTimestamp.Time) > requestsLast
	var waits, leaves []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		node := pod.Spec.NodeName
		switch {
		case pod.Status.Phase != core.PodRunning || pod.DeletionTimestamp != nil || has[node] || forgotten && podReady(pod):
		case away[node]:
			leaves = append(leaves, node)
		default:
			waits = append(waits, node)
		}
	}
	if slices.Sort(waits); len(waits) > 0 {
		return fmt.Sprintf("waiting for %d nodes, %s first (logs of pods of DaemonSet %s tell why)", len(waits), waits[0], central.NodesName), nil
	}
	if slices.Sort(leaves); len(leaves) > 0 {
		r.Say(Progress{Text: "not waited for, since they are not Ready: " + strings.Join(leaves, ", ")})
	}
	return "", nil
}

// certified are the nodes that have got a certificate since then.
func (r *Runner) certified(ctx context.Context, since time.Time) (map[string]bool, error) {
	requests, err := r.Client.CertificatesV1().CertificateSigningRequests().List(ctx, meta.ListOptions{
		FieldSelector: "spec.signerName=" + certs.SignerNode,
	})
	if err != nil {
		return nil, fmt.Errorf("list CertificateSigningRequests: %w", err)
	}
	has := map[string]bool{}
	for i := range requests.Items {
		request := &requests.Items[i]
		if node, err := certs.NodeOf(&request.Spec); err == nil && issuedSince(request, since) {
			has[node] = true
		}
	}
	return has, nil
}

// notReady are the nodes that say nothing, or that they are not Ready.
func (r *Runner) notReady(ctx context.Context) (map[string]bool, error) {
	nodes, err := r.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	out := map[string]bool{}
	for i := range nodes.Items {
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == core.NodeReady && c.Status != core.ConditionTrue {
				out[nodes.Items[i].Name] = true
			}
		}
	}
	return out, nil
}

func podReady(pod *core.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions,
		func(c core.PodCondition) bool { return c.Type == core.PodReady && c.Status == core.ConditionTrue })
}

func issuedSince(request *certificates.CertificateSigningRequest, since time.Time) bool {
	return len(request.Status.Certificate) > 0 && !request.CreationTimestamp.Time.Before(since)
}

func (r *Runner) memberless(ctx context.Context) (string, error) {
	records, err := central.Store{Client: r.Client, Namespace: shutout.Namespace}.Records(ctx)
	if err != nil {
		return "", err
	}
	var left []string
	for _, kind := range []central.Kind{central.Northbound, central.Southbound} {
		if _, member := records[kind].Member(r.plan.Node); member {
			left = append(left, string(kind))
		}
	}
	if len(left) > 0 {
		return "waiting for the other members to remove that of " + strings.Join(left, " and ") +
			" (logs of pods of DaemonSet atoll-ovn-central tell why not)", nil
	}
	return "", nil
}

func (r *Runner) chassisless(ctx context.Context) (string, error) {
	if r.plan.OwnOVN {
		return "", nil
	}
	names, err := r.Chassis(ctx)
	if err != nil {
		return "", errors.Join(errors.New("the southbound database cannot be read yet"), err)
	}
	if slices.Contains(names, r.plan.Node) {
		return "waiting for the leading atoll-controller to delete the chassis", nil
	}
	return "", nil
}
