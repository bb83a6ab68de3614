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
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/central"
	"github.com/atoll-net/atoll/pkg/certs"
	"github.com/atoll-net/atoll/pkg/shutout"
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

	plan  Plan
	since time.Time
}

// lookEvery is how often a stage that waits looks again.
const lookEvery = time.Second

// Run does what a plan says, and returns when the node has nothing any more.
func (r *Runner) Run(ctx context.Context, plan Plan) error {
	r.plan = plan
	for _, stage := range []struct {
		name string
		// do returns what is still missing; empty when the stage is done.
		do func(context.Context) (missing string, err error)
	}{
		{"the node is listed: it gets no certificate, and its kubelet writes nothing", r.list},
		{"authorities that have signed for the node are deleted", r.distrust},
		{"the Node and its pods are deleted, and their tokens with them", r.remove},
		{"new authorities are published", r.published},
		{"the other nodes have certificates of these", r.renewed},
		{"the node has no member of OVN's databases", r.memberless},
		{"the node has no chassis: other nodes have no tunnel to it", r.chassisless},
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
	r.since, err = shutout.Add(ctx, r.Client, r.plan.Node, time.Now())
	return "", err
}

// authorities are all that may have signed for the node. Nothing says later whether the node had a member of the databases, or a controller: the other members remove its member as soon
// as the node is listed, and a thief with a member's rights can take the node out of the record before that.
func authorities() []certs.Kind { return []certs.Kind{certs.Node, certs.Agent, certs.Central} }

// distrust deletes authorities that are older than the list's entry: the controller makes others.
func (r *Runner) distrust(ctx context.Context) (string, error) {
	secrets := r.Client.CoreV1().Secrets(shutout.Namespace)
	for _, kind := range authorities() {
		secret, err := secrets.Get(ctx, kind.Secret(), meta.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !secret.CreationTimestamp.Time.Before(r.since) {
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
	if err := r.Client.CoreV1().Nodes().Delete(ctx, r.plan.Node, meta.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("delete Node %s: %w", r.plan.Node, err)
	}
	pods, err := podsOf(ctx, r.Client, r.plan.Node)
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		// Nobody on the node is asked whether the pod has ended.
		err := r.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &meta.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if len(pods) > 0 {
		return fmt.Sprintf("waiting until %d pods have gone, %s/%s first", len(pods), pods[0].Namespace, pods[0].Name), nil
	}
	return "", nil
}

// published says what is missing until what is trusted is younger than the list's entry.
func (r *Runner) published(ctx context.Context) (string, error) {
	object, err := r.Client.CoreV1().ConfigMaps(shutout.Namespace).Get(ctx, certs.ConfigMapName, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // Certificates are not made by Atoll here.
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

// renewed says which nodes are still to get a certificate.
func (r *Runner) renewed(ctx context.Context) (string, error) {
	authority, err := r.Client.CoreV1().Secrets(shutout.Namespace).Get(ctx, certs.Node.Secret(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Secret %s/%s: %w", shutout.Namespace, certs.Node.Secret(), err)
	}
	requests, err := r.Client.CertificatesV1().CertificateSigningRequests().List(ctx, meta.ListOptions{FieldSelector: "spec.signerName=" + certs.SignerNode})
	if err != nil {
		return "", fmt.Errorf("list CertificateSigningRequests: %w", err)
	}
	has := map[string]bool{}
	for i := range requests.Items {
		request := &requests.Items[i]
		if node, err := certs.NodeOf(&request.Spec); err == nil && issuedSince(request, authority.CreationTimestamp.Time) {
			has[node] = true
		}
	}
	pods, err := r.Client.CoreV1().Pods(shutout.Namespace).List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/name=" + central.NodesName})
	if err != nil {
		return "", fmt.Errorf("list pods of DaemonSet %s: %w", central.NodesName, err)
	}
	var waits []string
	for _, pod := range pods.Items {
		if pod.Status.Phase == core.PodRunning && pod.DeletionTimestamp == nil && !has[pod.Spec.NodeName] {
			waits = append(waits, pod.Spec.NodeName)
		}
	}
	if slices.Sort(waits); len(waits) > 0 {
		return fmt.Sprintf("waiting for %d nodes, %s first (logs of pods of DaemonSet %s tell why)", len(waits), waits[0], central.NodesName), nil
	}
	return "", nil
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
		return "waiting for the other members to remove that of " + strings.Join(left, " and ") + " (logs of pods of DaemonSet atoll-ovn-central tell why not)", nil
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
