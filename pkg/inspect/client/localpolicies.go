package client

import (
	"context"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// policies lists NetworkPolicies, and takes them. (Those of the cluster are seldom for a user to list.)
func (read *reading) policies(ctx context.Context, r *Remote, namespace string) (kind string, use func(), err error) {
	list, err := r.client.NetworkingV1().NetworkPolicies(namespace).List(ctx, meta.ListOptions{})
	return "networkpolicies", func() {
		each(list.Items, func(p *networking.NetworkPolicy) {
			policy := intake.NetworkPolicy(p)
			read.held.Objects.Policies[policy.Key] = policy
		})
	}, err
}
