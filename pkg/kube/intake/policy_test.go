package intake

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestPoliciesAreBounded: what is beyond the bounds of one policy is not read, allows nothing, and is said in few words. The
// controls are policies at their bounds.
func TestPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	with := func(rules, peers, ports, requirements int) *model.Policy {
		var selector metav1.LabelSelector
		for i := range requirements {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpExists,
			})
		}
		var rule networkingv1.NetworkPolicyIngressRule
		for range peers {
			rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{PodSelector: &selector})
		}
		for range ports {
			rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{})
		}
		in := &networkingv1.NetworkPolicy{
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
		}
		for range rules {
			in.Spec.Ingress = append(in.Spec.Ingress, rule)
		}
		return NetworkPolicy(in)
	}
	for what, c := range map[string]struct {
		rules, peers, ports, requirements int
		read, allow                       int
	}{
		"as many rules as are read":        {maxPolicyRules, 1, 1, 1, maxPolicyRules, maxPolicyRules},
		"one rule more":                    {maxPolicyRules + 1, 1, 1, 1, maxPolicyRules, maxPolicyRules},
		"many more":                        {10 * maxPolicyRules, 1, 1, 1, maxPolicyRules, maxPolicyRules},
		"as many peers as are read":        {1, maxRulePeers, 1, 1, 1, 1},
		"one peer more":                    {1, maxRulePeers + 1, 1, 1, 1, 0},
		"as many ports as are read":        {1, 1, maxRulePorts, 1, 1, 1},
		"one port more":                    {1, 1, maxRulePorts + 1, 1, 1, 0},
		"as many requirements as are read": {1, 1, 1, maxRequirements, 1, 1},
		"one requirement more":             {1, 1, 1, maxRequirements + 1, 1, 0},
	} {
		p := with(c.rules, c.peers, c.ports, c.requirements)
		allow := 0
		for _, r := range p.Rules[model.PolicyIngress] {
			if r.AnyPeer || r.AnyPort {
				t.Errorf("%s: a rule that names both allows everybody", what)
			}
			if len(r.Peers) > 0 && len(r.Ports) > 0 {
				allow++
			}
		}
		beyond := c.rules > maxPolicyRules || c.allow == 0
		if read := len(p.Rules[model.PolicyIngress]); read != c.read || allow != c.allow || !p.Isolates[model.PolicyIngress] ||
			(len(p.Problems) > 0) != beyond {
			t.Errorf("%s: %d rules are read, want %d; %d allow something, want %d; problems %v", what, read, c.read, allow, c.allow, p.Problems)
		}
		words := 0
		for _, problem := range p.Problems {
			words += len(problem.Message)
		}
		if len(p.Problems) > maxPolicyProblems || words > maxPolicyProblems*maxErrorLength {
			t.Errorf("%s: it is said in %d problems of %d bytes", what, len(p.Problems), words)
		}
	}
}

// TestProductsOfPoliciesAreBounded: what is small by itself and large together is bounded together: exceptions of all blocks, and
// ports with a name times peers. What is beyond allows nothing; the controls are policies at their bounds.
func TestProductsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	excepting := func(blocks, each int) *networkingv1.NetworkPolicy {
		in := &networkingv1.NetworkPolicy{
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
		}
		for range blocks {
			block := &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}
			for i := range each {
				block.Except = append(block.Except, fmt.Sprintf("10.%d.%d.1/32", i/256, i%256))
			}
			in.Spec.Ingress = append(in.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				From: []networkingv1.NetworkPolicyPeer{{IPBlock: block}},
			})
		}
		return in
	}
	naming := func(rules, ports, peers int) *networkingv1.NetworkPolicy {
		in := &networkingv1.NetworkPolicy{
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
		}
		for range rules {
			var rule networkingv1.NetworkPolicyIngressRule
			for range ports {
				rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("web"))})
			}
			for range peers {
				rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})
			}
			in.Spec.Ingress = append(in.Spec.Ingress, rule)
		}
		return in
	}
	for what, c := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		allow  int
	}{
		"as many exceptions as are read":            {excepting(1, maxPolicyExceptions), 1},
		"one exception more":                        {excepting(1, maxPolicyExceptions+1), 0},
		"as many together":                          {excepting(4, maxPolicyExceptions/4), 4},
		"one block too many":                        {excepting(5, maxPolicyExceptions/4), 4},
		"as many named ports and peers as are read": {naming(1, maxPolicyNamed/64, 64), 1},
		"one named port more":                       {naming(1, maxPolicyNamed/64+1, 64), 0},
		"named ports for everybody":                 {naming(1, maxRulePorts, 0), 1},
		"as many rules of them":                     {naming(4, maxPolicyNamed/64, 16), 4},
		"one rule of them too many":                 {naming(5, maxPolicyNamed/64, 16), 4},
	} {
		p, allow := NetworkPolicy(c.policy), 0
		for _, r := range p.Rules[model.PolicyIngress] {
			if (r.AnyPeer || len(r.Peers) > 0) && (r.AnyPort || len(r.Ports) > 0) {
				allow++
			}
		}
		if said := len(p.Problems) > 0; allow != c.allow || said != (allow < len(c.policy.Spec.Ingress)) {
			t.Errorf("%s: %d of %d rules allow something, want %d; it says %v", what, allow, len(c.policy.Spec.Ingress), c.allow, p.Problems)
		}
	}
}

// TestPeersOfPoliciesAreBounded: those of all rules together, each counted once. The rest allows nothing, and what is at the
// bound allows all. A rule whose peers are all beyond it allows nobody.
func TestPeersOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	selecting := func(i int) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist},
		}}}
	}
	block := func(i int) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("100.64.%d.%d/32", i/256, i%256)}}
	}
	with := func(rules, peers, distinct int, peer func(int) networkingv1.NetworkPolicyPeer) *networkingv1.NetworkPolicy {
		in := &networkingv1.NetworkPolicy{
			Spec: networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			},
		}
		for i := range rules {
			var all []networkingv1.NetworkPolicyPeer
			for k := range peers {
				all = append(all, peer((i*peers+k)%distinct))
			}
			if i%2 == 0 {
				in.Spec.Ingress = append(in.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: all})
			} else {
				in.Spec.Egress = append(in.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: all})
			}
		}
		return in
	}
	for what, c := range map[string]struct {
		policy   *networkingv1.NetworkPolicy
		distinct int
		peers    int
	}{
		"30 rules of 1,000 selectors":   {with(30, 1000, 30000, selecting), maxPolicySelectors, maxPolicySelectors},
		"30 rules of 1,000 blocks":      {with(30, 1000, 30000, block), maxPolicyBlocks, maxPolicyBlocks},
		"as many selectors as are read": {with(4, maxPolicySelectors/4, maxPolicySelectors, selecting), maxPolicySelectors, maxPolicySelectors},
		"one more":                      {with(1, maxPolicySelectors+1, maxPolicySelectors+1, selecting), maxPolicySelectors, maxPolicySelectors},
		"as many blocks as are read":    {with(4, maxPolicyBlocks/4, maxPolicyBlocks, block), maxPolicyBlocks, maxPolicyBlocks},
		"the same ones in many rules":   {with(40, 100, 100, selecting), 100, 4000},
	} {
		p := NetworkPolicy(c.policy)
		seen, peers, asked := map[string]bool{}, 0, 0
		for _, r := range append(p.Rules[model.PolicyIngress], p.Rules[model.PolicyEgress]...) {
			if r.AnyPeer {
				t.Errorf("%s: a rule that names peers allows everybody", what)
			}
			for _, peer := range r.Peers {
				peers++
				if peer.Pods != nil {
					seen[peer.Pods.String()] = true
				} else {
					seen[peer.Block.String()] = true
				}
			}
		}
		for _, r := range c.policy.Spec.Ingress {
			asked += len(r.From)
		}
		for _, r := range c.policy.Spec.Egress {
			asked += len(r.To)
		}
		if len(seen) != c.distinct || peers != c.peers || p.Isolates != [2]bool{true, true} {
			t.Errorf("%s: %d peers are read, of which %d differ; want %d and %d", what, peers, len(seen), c.peers, c.distinct)
		}
		if said := len(p.Problems) > 0; said != (peers < asked) || len(p.Problems) > maxPolicyProblems {
			t.Errorf("%s: it says %v", what, p.Problems)
		}
	}
}
