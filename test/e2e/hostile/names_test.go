//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestNetworksAreNotNamed: a tenant asks for a Network that exists and for one that does not, and compares the answers.
func TestNetworksAreNotNamed(t *testing.T) {
	edit := mallory(t)
	told := func(ctx context.Context, pod, network string) (string, error) {
		s := cluster.PodSpec{Namespace: "attackers", Name: pod, Network: network}
		p, err := edit.CoreV1().Pods(s.Namespace).Create(ctx, s.Object(), metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		defer removeNow(p)
		for {
			text, err := refusal(ctx, p)
			if err != nil || text != "" {
				return strings.ReplaceAll(text, `"`+network+`"`, `"X"`), err
			}
			now, err := env.Clients.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			if err == nil && cluster.IsReady(now) {
				return "it is attached", nil
			}
			if err := pause(ctx, fmt.Errorf("%s is told nothing: %w", pod, err)); err != nil {
				return "", err
			}
		}
	}
	spec("allowedNamespaces", "victims", func(s *v1alpha1.NetworkSpec) { s.AllowedNamespaces = &metav1.LabelSelector{} }).holds(t,
		attack{"which Networks exist", func(ctx context.Context) (string, error) {
			there, err := told(ctx, "asks-for-theirs", "victims")
			if err != nil {
				return "", err
			}
			missing, err := told(ctx, "asks-for-none", "nobodys")
			if err != nil || there == missing {
				return "", err
			}
			return fmt.Sprintf("he is told %q of theirs, and %q of one that is not there", there, missing), nil
		}},
	)
}

// TestNamespacesAreTheOperators: a user may write a namespace, but no Network. The user gives the namespace another's Network, a
// tenant's name, the rights of infrastructure, and external addresses.
func TestNamespacesAreTheOperators(t *testing.T) {
	owner := everything(t)
	patches := func(what, key, value string, subresources ...string) attempt {
		return writes(func(ctx context.Context) error {
			patch := fmt.Appendf(nil, `{"metadata":{%q:{%q:%q}}}`, what, key, value)
			_, err := owner.CoreV1().Namespaces().Patch(ctx, "attackers", types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry()},
				subresources...)
			return err
		})
	}
	policy("atoll-namespaces").holds(t,
		attack{"another's Network", patches("labels", model.LabelNetwork, "victims")},
		attack{"another's Network, through the status", patches("labels", model.LabelNetwork, "victims", "status")},
		attack{"the default Network", patches("labels", model.LabelNetwork, "default")},
		attack{"a tenant's name", patches("labels", model.LabelTenant, "victims")},
		attack{"the rights of infrastructure", patches("labels", model.LabelInfrastructure, "true")},
		attack{"external addresses", patches("annotations", model.AnnotationExternalRanges, "0.0.0.0/0")},
	)
}
