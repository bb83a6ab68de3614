package install

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrRefused is the error of an installation that a check is against.
var ErrRefused = errors.New("a check refuses")

// Verdict is what a check says.
type Verdict string

const (
	// OK: nothing speaks against it.
	OK Verdict = "ok"
	// Warn: it works, and not all that a person may expect.
	Warn Verdict = "warning"
	// Refuse: it would not work.
	Refuse Verdict = "refused"
)

// Check is one row of the checks before an installation.
type Check struct {
	Name    string
	Verdict Verdict
	// Found is what was seen, Next what to do about it; Next is empty when there is nothing.
	Found, Next string
}

// facts are what the checks look at. Only what the API server tells is in them: what is to be seen on nodes alone, programs on nodes say.
type facts struct {
	// server is the version of the API server, such as v1.36.2.
	server string
	// policies is whether it serves ValidatingAdmissionPolicies, version v1.
	policies bool
	nodes    []corev1.Node
	daemons  []appsv1.DaemonSet
	// namespaces and pods are all that there are.
	namespaces []corev1.Namespace
	pods       []corev1.Pod
	// services are the ranges that the cluster tells of.
	services ranges
	// api are addresses of API servers.
	api []netip.Addr
	// denied are rights that the user lacks.
	denied []string
	// installed is the version that is there; nil, if none is.
	installed *Installed
}

// Installed is what is in the cluster.
type Installed struct {
	// Version is empty when nothing tells it.
	Version string
}

// Preflight makes the checks for a plan. An error means that it could not look.
func Preflight(ctx context.Context, c *Cluster, p *Plan) ([]Check, error) {
	f, err := c.facts(ctx, p)
	if err != nil {
		return nil, err
	}
	return f.judge(p), nil
}

// Refused reports whether a check is against the installation.
func Refused(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.Verdict == Refuse })
}

// facts asks the cluster.
func (c *Cluster) facts(ctx context.Context, p *Plan) (f facts, err error) {
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return f, fmt.Errorf("ask the API server for its version: %w", err)
	}
	f.server = version.GitVersion
	served, err := c.discovery.ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil && !apierrors.IsNotFound(err) {
		return f, fmt.Errorf("ask the API server for its admission kinds: %w", err)
	}
	f.policies = served != nil &&
		slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "validatingadmissionpolicies" })
	if f.nodes, err = listAs[corev1.Node](ctx, c, nodeKind, "", ""); err != nil {
		return f, err
	}
	if f.daemons, err = listAs[appsv1.DaemonSet](ctx, c, daemonSetKind, "", ""); err != nil {
		return f, err
	}
	if f.namespaces, err = listAs[corev1.Namespace](ctx, c, schema.GroupKind{Kind: "Namespace"}, "", ""); err != nil {
		return f, err
	}
	if f.pods, err = listAs[corev1.Pod](ctx, c, podKind, "", ""); err != nil {
		return f, err
	}
	if f.services.services, err = c.serviceRanges(ctx); err != nil {
		return f, err
	}
	if f.services.dns, err = c.dnsAddresses(ctx); err != nil {
		return f, err
	}
	if f.api, err = c.apiAddresses(ctx); err != nil {
		return f, err
	}
	if f.installed, err = c.Installed(ctx); err != nil {
		return f, err
	}
	f.denied, err = c.deniedRights(ctx, p)
	return f, err
}

// Installed is what of Atoll is in the cluster; nil, if there is no controller.
func (c *Cluster) Installed(ctx context.Context) (*Installed, error) {
	d, err := c.get(ctx, deploymentKind, system, controllerName)
	if err != nil || d == nil {
		return nil, err
	}
	found := &Installed{Version: d.GetLabels()[versionLabel]}
	if found.Version == "" {
		eachContainer(d, func(container map[string]any) {
			if image, ok := container["image"].(string); ok {
				found.Version = tagOf(image)
			}
		})
	}
	return found, nil
}

// deniedRights asks the server which rights the user lacks for a plan.
func (c *Cluster) deniedRights(ctx context.Context, p *Plan) (denied []string, err error) {
	reviews, err := c.of(schema.GroupKind{Group: "authorization.k8s.io", Kind: "SelfSubjectAccessReview"}, "")
	if err != nil {
		return nil, err
	}
	allowed := func(verb, group, resource, namespace string) (bool, error) {
		made, err := reviews.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]any{"verb": verb, "group": group, "resource": resource, "namespace": namespace}},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask for the right to %s %s: %w", verb, resource, err)
		}
		yes, _, _ := unstructured.NestedBool(made.Object, "status", "allowed")
		return yes, nil
	}
	if yes, err := allowed("*", "*", "*", ""); err != nil || yes {
		return nil, err
	}
	seen := map[string]bool{}
	for _, o := range p.Objects {
		gk := o.GroupVersionKind().GroupKind()
		// A plural of ours; kinds of the plan may not be there yet.
		resource := strings.ToLower(gk.Kind) + "s"
		if stem, found := strings.CutSuffix(resource, "ys"); found {
			resource = stem + "ies"
		}
		for _, verb := range []string{"create", "patch"} {
			right := verb + " " + resource + "." + gk.Group + " in " + o.GetNamespace()
			if seen[right] {
				continue
			}
			seen[right] = true
			yes, err := allowed(verb, gk.Group, resource, o.GetNamespace())
			if err != nil {
				return nil, err
			}
			if !yes {
				denied = append(denied, verb+" "+resource)
			}
		}
	}
	// Roles of more rights than one has oneself are made by who may escalate.
	for _, verb := range []string{"escalate", "bind"} {
		yes, err := allowed(verb, "rbac.authorization.k8s.io", "clusterroles", "")
		if err != nil {
			return nil, err
		}
		if !yes {
			denied = append(denied, verb+" clusterroles")
		}
	}
	slices.Sort(denied)
	return slices.Compact(denied), nil
}
