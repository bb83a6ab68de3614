package random

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Changed draws a cluster as it is after one policy has come, is another one, or has gone.
func Changed(c oracle.Cluster) *rapid.Generator[oracle.Cluster] {
	return rapid.Custom(func(t *rapid.T) oracle.Cluster {
		out := c
		out.Policies, out.ClusterPolicies = slices.Clone(c.Policies), slices.Clone(c.ClusterPolicies)
		kinds := []string{"comes", "comes", "is another", "goes"}
		if len(c.ClusterPolicies) > 0 {
			kinds = append(kinds, "cluster: is another", "cluster: goes")
		}
		switch kind := rapid.SampledFrom(append(kinds, "cluster: comes")).Draw(t, "change"); kind {
		case "comes":
			p := networkPolicy().Draw(t, "policy")
			// Where no pod is, it can change nothing.
			p.Name, p.Namespace = "new", rapid.SampledFrom(c.Pods).Draw(t, "in the namespace of").Namespace
			out.Policies = append(out.Policies, p)
		case "is another", "goes":
			i := rapid.IntRange(0, len(c.Policies)-1).Draw(t, "which")
			if kind == "goes" {
				out.Policies = slices.Delete(out.Policies, i, i+1)
				break
			}
			p := networkPolicy().Draw(t, "policy")
			p.Namespace, p.Name = c.Policies[i].Namespace, c.Policies[i].Name
			out.Policies[i] = p
		case "cluster: is another", "cluster: goes":
			i := rapid.IntRange(0, len(c.ClusterPolicies)-1).Draw(t, "which")
			if kind == "cluster: goes" {
				out.ClusterPolicies = slices.Delete(out.ClusterPolicies, i, i+1)
				break
			}
			p := clusterPolicy().Draw(t, "policy")
			// Its place among the others stays: which of two of one priority comes first is open.
			p.Name, p.Spec.Tier, p.Spec.Priority = c.ClusterPolicies[i].Name, c.ClusterPolicies[i].Spec.Tier, c.ClusterPolicies[i].Spec.Priority
			out.ClusterPolicies[i] = p
		case "cluster: comes":
			p := clusterPolicy().Draw(t, "policy")
			p.Name, p.Spec.Priority = "new", rapid.SampledFrom([]int32{4, 500}).Draw(t, "priority")
			out.ClusterPolicies = append(out.ClusterPolicies, p)
		default:
			panic(fmt.Sprintf("%s is no change", kind))
		}
		return out
	})
}
