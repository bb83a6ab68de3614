//go:build integration

package kube

import (
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestFeedOfPolicies: policies of both kinds come in and go, and where nobody has brought the definition of those of the
// cluster, the feed is complete without them, until somebody brings it.
func TestFeedOfPolicies(t *testing.T) {
	l := newLab(t)
	l.seen.Policies = map[model.PolicyKey]*model.Policy{}
	admin, err := newClients(l.server.RESTConfig())
	must(t, err)
	until := func(what string, met func(map[model.PolicyKey]*model.Policy) bool) {
		t.Helper()
		for {
			maps.Copy(l.seen.Policies, l.feed.Take().Policies)
			if l.feed.Synced() && met(l.seen.Policies) {
				return
			}
			select {
			case <-l.feed.Ready():
			case <-l.ctx.Done():
				t.Fatalf("%s did not happen; seen %+v", what, l.seen.Policies)
			}
		}
	}
	own := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "default", Name: "own"}
	policies := admin.networking.NetworkPolicies("default")
	_, err = policies.Create(l.ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: own.Name}}, metav1.CreateOptions{})
	must(t, err)
	until("a policy of a namespace", func(seen map[model.PolicyKey]*model.Policy) bool {
		return seen[own] != nil && seen[own].Isolates == [2]bool{true, false}
	})

	dir, err := exec.CommandContext(l.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/network-policy-api").Output()
	must(t, err)
	must(t, l.server.Establish(l.ctx, filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "standard")))
	all := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec = policyv1alpha2.ClusterNetworkPolicySpec{
		Tier: policyv1alpha2.BaselineTier, Priority: 7,
		Subject: policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		Ingress: []policyv1alpha2.ClusterNetworkPolicyIngressRule{{
			Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
			From:   []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: &metav1.LabelSelector{}}},
		}},
	}
	must(t, admin.policy.Post().Resource("clusternetworkpolicies").Body(all).Do(l.ctx).Error())
	key := model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "all"}
	until("a policy of the cluster", func(seen map[model.PolicyKey]*model.Policy) bool {
		p := seen[key]
		return p != nil && p.Tier == model.TierBaseline && p.Priority == 7 && len(p.Rules[model.PolicyIngress]) == 1
	})
	must(t, admin.policy.Delete().Resource("clusternetworkpolicies").Name("all").Do(l.ctx).Error())
	must(t, policies.Delete(l.ctx, own.Name, metav1.DeleteOptions{}))
	until("the end of both", func(seen map[model.PolicyKey]*model.Policy) bool { return seen[key] == nil && seen[own] == nil })
}
