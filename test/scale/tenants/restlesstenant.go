package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// restlessWorkers are the tenant's requests at once. Each worker has a pod of its own, and makes so many policies before it deletes them.
	restlessWorkers = 8
	atOnce          = 4
	// fillers are further pods of the tenant, which each of wideSelectors in a wide policy selects.
	fillers, wideSelectors = 200, 64
)

// change is a worker's request of that turn.
type change func(ctx context.Context, worker, turn int) error

// restlessTenant is a ServiceAccount with the rights of role edit in its namespace. Its rate is bounded by the API server alone.
type restlessTenant struct {
	kube    kubernetes.Interface
	answers *answers
	// changes are those that the API server has made.
	changes atomic.Int64
}

// startRestless makes the tenant, its Network, and its pods.
func (m *measuring) startRestless(ctx context.Context) (*restlessTenant, error) {
	if err := m.make(ctx, 0, restlessNetwork()); err != nil {
		return nil, err
	}
	// Nobody fills role edit from these two here: that is kube-controller-manager's.
	for _, role := range []string{"system:aggregate-to-edit", "system:aggregate-to-view"} {
		if _, err := m.Kube.RbacV1().RoleBindings(restlessName).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: restlessName, Name: restlessName}},
		}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("bind role: %w", err)
		}
	}
	r := &restlessTenant{answers: &answers{}}
	config := m.As("system:serviceaccount:"+restlessName+":"+restlessName, "system:serviceaccounts", "system:serviceaccounts:"+restlessName)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r.answers.next = next
		return r.answers
	})
	var err error
	if r.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	pods := []lab.Pod{{Key: model.PodKey{Namespace: restlessName, Name: "stays"}, Subnet: "a"}}
	for w := range restlessWorkers {
		pods = append(pods, lab.Pod{Key: model.PodKey{Namespace: restlessName, Name: podOf(w)}, Subnet: "b"})
	}
	for i := range fillers {
		pods = append(pods, lab.Pod{Key: model.PodKey{Namespace: restlessName, Name: fmt.Sprintf("fills-%d", i)}, Subnet: "a"})
	}
	var ports []string
	for i, p := range pods {
		p.Node = fmt.Sprintf("node-%03d", i%m.o.nodes)
		if err := m.CreatePod(ctx, p); err != nil {
			return nil, fmt.Errorf("make pod: %w", err)
		}
		ports = append(ports, p.Port())
	}
	for w := range restlessWorkers {
		if err := r.patch(ctx, "stays", w, `""`); err != nil {
			return nil, err
		}
	}
	return r, m.Ports.Await(ctx, ports, m.Ports.Seen, m.Controller.Done())
}

// restlessNetwork has two switches: on one a pod stays in each group, so that the group lasts; on the other, pods enter and leave it alone.
func restlessNetwork() *v1alpha1.Network {
	n := lab.Network(restlessName, subnet(), v1alpha1.Subnet{Name: "b", CIDRs: []v1alpha1.CIDR{"10.0.1.0/24"}})
	n.Spec.Tenant = restlessName
	return n
}

func podOf(worker int) string { return fmt.Sprintf("moves-%d", worker) }

func labelOf(worker int) string { return fmt.Sprintf("group-%d", worker) }

// start has all workers do something over and over, until the function is called that it returns.
func (r *restlessTenant) start(ctx context.Context, do change) (stop func() error) {
	r.changes.Store(0)
	r.answers.all.Store(0)
	r.answers.refused.Store(0)
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for w := range restlessWorkers {
		group.Go(func() error {
			for turn := 0; ctx.Err() == nil; turn++ {
				switch err := do(ctx, w, turn); {
				case err == nil:
					r.changes.Add(1)
				// After a refusal the policy of a later turn is there already, or is not.
				case apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsNotFound(err),
					apierrors.IsAlreadyExists(err), ctx.Err() != nil:
				default:
					return err
				}
			}
			return nil
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}
}

// kind is one kind of changes, and what it needs before.
type kind struct {
	what   string
	begin  func(context.Context) error
	change change
}

func (r *restlessTenant) kinds() []kind {
	return []kind{
		{"makes and deletes policies", r.nothing, r.policy},
		{"changes labels of pods", r.policiesOfLabels, r.label},
		{fmt.Sprintf("makes and deletes policies of %d selectors", wideSelectors), r.nothing, r.widePolicy},
	}
}

func (r *restlessTenant) nothing(context.Context) error { return nil }

// policy makes a policy, or deletes one. Each lives for as long as some requests take: of one that is gone at once, the
// controller hears nothing.
func (r *restlessTenant) policy(ctx context.Context, worker, turn int) error {
	p := policyFor(fmt.Sprintf("policy-%d-%d", worker, turn%atOnce), metav1.LabelSelector{}, worker, 1+turn%60000)
	return r.alternate(ctx, p, turn/atOnce)
}

// widePolicy makes a policy whose every peer is a port group of its own with all pods of the tenant, or deletes it.
func (r *restlessTenant) widePolicy(ctx context.Context, worker, turn int) error {
	p := policyFor(fmt.Sprintf("wide-%d", worker), metav1.LabelSelector{}, worker, 80)
	for i := range wideSelectors {
		peer := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: fmt.Sprintf("nobody-has-%d-%d", worker, i), Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
		p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{PodSelector: &peer})
	}
	return r.alternate(ctx, p, turn)
}

// alternate makes a policy in even turns, and deletes it in odd ones.
func (r *restlessTenant) alternate(ctx context.Context, p *networkingv1.NetworkPolicy, turn int) error {
	policies := r.kube.NetworkingV1().NetworkPolicies(restlessName)
	if turn%2 == 1 {
		return policies.Delete(ctx, p.Name, metav1.DeleteOptions{})
	}
	_, err := policies.Create(ctx, p, metav1.CreateOptions{})
	return err
}

// policyFor isolates some pods, but for those with the worker's label at one port.
func policyFor(name string, subject metav1.LabelSelector, worker, port int) *networkingv1.NetworkPolicy {
	peers := metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelOf(worker), Operator: metav1.LabelSelectorOpExists}},
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: subject, Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &peers}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(port)))}},
		}}},
	}
}

// policiesOfLabels makes a policy for each worker that isolates the pods with its label.
func (r *restlessTenant) policiesOfLabels(ctx context.Context) error {
	for w := range restlessWorkers {
		subject := metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelOf(w), Operator: metav1.LabelSelectorOpExists}},
		}
		if err := r.alternate(ctx, policyFor("labels-"+labelOf(w), subject, w, 80), 0); err != nil {
			return fmt.Errorf("make policy: %w", err)
		}
	}
	return nil
}

// label gives the worker's pod its label, or takes it: its port enters a group, or leaves it, as the only one of its switch.
func (r *restlessTenant) label(ctx context.Context, worker, turn int) error {
	value := `""`
	if turn%2 == 1 {
		value = "null"
	}
	return r.patch(ctx, podOf(worker), worker, value)
}

func (r *restlessTenant) patch(ctx context.Context, pod string, worker int, value string) error {
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, labelOf(worker), value)
	_, err := r.kube.CoreV1().Pods(restlessName).Patch(ctx, pod, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// tidy deletes all of its policies, and takes the labels away.
func (r *restlessTenant) tidy(ctx context.Context) error {
	problem := r.kube.NetworkingV1().NetworkPolicies(restlessName).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	for w := range restlessWorkers {
		problem = errors.Join(problem, r.patch(ctx, podOf(w), w, "null"))
	}
	return problem
}

// answers counts what the API server answers. The client would wait after a refusal, if it were told for how long.
type answers struct {
	next         http.RoundTripper
	all, refused atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.all.Add(1)
	if answer.StatusCode == http.StatusTooManyRequests {
		a.refused.Add(1)
		answer.Header.Del("Retry-After")
	}
	return answer, nil
}

// waits are how long something took, in seconds.
type waits struct{ median, most float64 }

func seriesOf(seconds []float64) waits {
	sorted := slices.Sorted(slices.Values(seconds))
	if len(sorted) == 0 {
		return waits{}
	}
	return waits{sorted[len(sorted)/2], sorted[len(sorted)-1]}
}
