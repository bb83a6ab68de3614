package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// Plan is what shutting a node out takes, and what whoever has the node has had.
type Plan struct {
	Node string
	// There: the cluster has a Node of that name. Since is when it was listed; zero: it is not.
	There bool
	Since time.Time
	// Pods are those of the node, and Secrets those that they could read, as NAMESPACE/NAME, sorted.
	Pods, Secrets []string
	// Databases are those of OVN of which the node has a member.
	Databases []central.Kind
	// OwnOVN: OVN's databases are not Atoll's, and nobody deletes the node's chassis there.
	OwnOVN bool
	// ControlPlane: the node is labelled as one of Kubernetes' control plane.
	ControlPlane bool
	// Unguarded is why the API server does not refuse what the node's kubelet writes once the node is listed; empty: it does.
	Unguarded string
	// Tokens are the bootstrap tokens of the cluster, by which a machine becomes a node of any name. TokensUnknown is why they are not known.
	Tokens        []string
	TokensUnknown error
}

// errOnlyMember says that without the node there would be no database.
var errOnlyMember = errors.New("the node has the only member of OVN's databases: have another member first (docs/install.md#overlays)")

// Look makes a plan.
func Look(ctx context.Context, client kubernetes.Interface, node string) (Plan, error) {
	p := Plan{Node: node}
	listed, err := shutout.Read(ctx, client)
	if err != nil {
		return p, err
	}
	p.Since = listed[node]
	if p.Unguarded, err = unguarded(ctx, client); err != nil {
		return p, err
	}
	object, err := client.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{})
	switch {
	case err == nil:
		p.There = true
		_, p.ControlPlane = object.Labels["node-role.kubernetes.io/control-plane"]
	case !apierrors.IsNotFound(err):
		return p, fmt.Errorf("read Node %s: %w", node, err)
	}
	pods, err := podsOf(ctx, client, node)
	if err != nil {
		return p, err
	}
	secrets := map[string]struct{}{}
	for _, pod := range pods {
		p.Pods = append(p.Pods, pod.Namespace+"/"+pod.Name)
		for _, name := range secretsOf(&pod) {
			secrets[pod.Namespace+"/"+name] = struct{}{}
		}
	}
	slices.Sort(p.Pods)
	p.Secrets = slices.Sorted(maps.Keys(secrets))
	records, err := central.Store{Client: client, Namespace: shutout.Namespace}.Records(ctx)
	if err != nil {
		return p, err
	}
	p.OwnOVN = len(records[central.Southbound].Members) == 0
	for _, kind := range []central.Kind{central.Northbound, central.Southbound} {
		if _, member := records[kind].Member(node); member {
			if len(records[kind].Members) == 1 {
				return p, errOnlyMember
			}
			p.Databases = append(p.Databases, kind)
		}
	}
	tokens, err := client.CoreV1().Secrets(meta.NamespaceSystem).List(ctx, meta.ListOptions{
		FieldSelector: "type=bootstrap.kubernetes.io/token",
	})
	if p.TokensUnknown = err; err == nil {
		for _, secret := range tokens.Items {
			p.Tokens = append(p.Tokens, secret.Namespace+"/"+secret.Name)
		}
	}
	return p, nil
}

// unguarded says what is missing of the admission policy that keeps listed nodes from writing; empty: nothing is.
func unguarded(ctx context.Context, client kubernetes.Interface) (string, error) {
	policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, shutout.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "there is no ValidatingAdmissionPolicy " + shutout.Name, nil
	}
	if err != nil {
		return "", fmt.Errorf("read ValidatingAdmissionPolicy %s: %w", shutout.Name, err)
	}
	if policy.Spec.FailurePolicy != nil && *policy.Spec.FailurePolicy != admission.Fail {
		return "ValidatingAdmissionPolicy " + shutout.Name + " lets pass what it cannot judge (failurePolicy)", nil
	}
	binding, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, shutout.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "there is no ValidatingAdmissionPolicyBinding " + shutout.Name, nil
	}
	if err != nil {
		return "", fmt.Errorf("read ValidatingAdmissionPolicyBinding %s: %w", shutout.Name, err)
	}
	list := binding.Spec.ParamRef
	if binding.Spec.PolicyName != shutout.Name || !slices.Contains(binding.Spec.ValidationActions, admission.Deny) ||
		binding.Spec.MatchResources != nil ||
		list == nil || list.Namespace != shutout.Namespace || list.Name != shutout.Name {
		return "ValidatingAdmissionPolicyBinding " + shutout.Name + " is not that of dist/admission: it does not deny by the list", nil
	}
	return "", nil
}

func podsOf(ctx context.Context, client kubernetes.Interface, node string) ([]core.Pod, error) {
	pods, err := client.CoreV1().Pods("").List(ctx, meta.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of node %s: %w", node, err)
	}
	return pods.Items, nil
}

// secretsOf are the Secrets that a pod's node may read because of it.
func secretsOf(pod *core.Pod) (out []string) {
	for _, s := range pod.Spec.ImagePullSecrets {
		out = append(out, s.Name)
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Secret != nil:
			out = append(out, v.Secret.SecretName)
		case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
			out = append(out, v.CSI.NodePublishSecretRef.Name)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					out = append(out, source.Secret.Name)
				}
			}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				out = append(out, from.SecretRef.Name)
			}
		}
		for _, env := range c.Env {
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				out = append(out, env.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}
