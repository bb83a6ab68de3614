package intake

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds that the CRD's schema has too, but an object may have been stored under another one.
const (
	maxClusterRules    = 25
	maxClusterPriority = 1000
)

// errUnknown: an object of the API has none of the fields that this version knows.
var errUnknown = errors.New("it has nothing that this version knows")

// ClusterNetworkPolicy reads a ClusterNetworkPolicy. What of it cannot be understood fails closed, as the API asks: a rule
// that accepts matches nothing, and one that denies or passes denies everything.
func ClusterNetworkPolicy(in *policyv1alpha2.ClusterNetworkPolicy) *model.Policy {
	r := &clusterReader{}
	out := &model.Policy{
		Key:      model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: in.Name},
		UID:      string(in.UID),
		Tier:     model.TierAdmin,
		Priority: in.Spec.Priority,
		Log:      in.Annotations[model.AnnotationLogPolicy] == "true",
	}
	switch in.Spec.Tier {
	case policyv1alpha2.AdminTier:
	case policyv1alpha2.BaselineTier:
		out.Tier = model.TierBaseline
	default:
		r.close("spec.tier: there is no tier %s", quote(string(in.Spec.Tier)))
	}
	if in.Spec.Priority < 0 || in.Spec.Priority > maxClusterPriority {
		r.close("spec.priority: %d is not between 0 and %d", in.Spec.Priority, maxClusterPriority)
	}
	subject, err := clusterPods(in.Spec.Subject.Namespaces, in.Spec.Subject.Pods)
	if err != nil {
		// Too many pods are denied something rather than too few.
		r.close("spec.subject: %s; every pod counts as selected", err)
		subject = match.Pods{}
	}
	out.Subject = subject
	for i, rule := range in.Spec.Ingress {
		where := fmt.Sprintf("spec.ingress[%d]", i)
		var peers []model.Peer
		var problem error
		for _, p := range rule.From {
			peer, err := clusterPods(p.Namespaces, p.Pods)
			peers, problem = append(peers, model.Peer{Pods: &peer}), errors.Join(problem, err)
		}
		out.Rules[model.PolicyIngress] = r.add(out.Rules[model.PolicyIngress], i, where, clusterRule{
			rule.Name, rule.Action, peers, rule.Protocols, problem,
		})
	}
	for i, rule := range in.Spec.Egress {
		where := fmt.Sprintf("spec.egress[%d]", i)
		var peers []model.Peer
		var problem error
		for _, p := range rule.To {
			more, err := egressPeers(p)
			peers, problem = append(peers, more...), errors.Join(problem, err)
		}
		out.Rules[model.PolicyEgress] = r.add(out.Rules[model.PolicyEgress], i, where, clusterRule{
			rule.Name, rule.Action, peers, rule.Protocols, problem,
		})
	}
	out.Problems = r.problems
	return out
}

// clusterReader reads the rules of one policy. closed: something that concerns all of them cannot be understood.
type clusterReader struct {
	policyReader
	closed bool
}

func (r *clusterReader) close(format string, args ...any) {
	r.closed = true
	r.problem(format, args...)
}

// clusterRule is a rule of either direction; problem is what is wrong with its peers.
type clusterRule struct {
	name      string
	action    policyv1alpha2.ClusterNetworkPolicyRuleAction
	peers     []model.Peer
	protocols []policyv1alpha2.ClusterNetworkPolicyProtocol
	problem   error
}

// add appends a rule. Of a policy with too many, the last one that has a place of its own denies everything.
func (r *clusterReader) add(rules []model.Rule, i int, where string, in clusterRule) []model.Rule {
	switch {
	case i == maxClusterRules:
		r.problem("%s: at most %d rules are read; the last of them denies everything", where, maxClusterRules)
		rules[maxClusterRules-1] = denyAll(in.name)
		return rules
	case i > maxClusterRules:
		return rules
	}
	out := model.Rule{Name: in.name, AnyPort: len(in.protocols) == 0, Peers: in.peers}
	problem := in.problem
	switch in.action {
	case policyv1alpha2.ClusterNetworkPolicyRuleActionAccept:
		out.Verdict = model.Allow
	case policyv1alpha2.ClusterNetworkPolicyRuleActionDeny:
		out.Verdict = model.Deny
	case policyv1alpha2.ClusterNetworkPolicyRuleActionPass:
		out.Verdict = model.Pass
	default:
		out.Verdict = model.Deny
		problem = errors.Join(problem, fmt.Errorf("there is no action %s", quote(string(in.action))))
	}
	if len(in.peers) == 0 && problem == nil {
		problem = errors.New("it names no peer")
	}
	for _, p := range in.protocols {
		port, err := clusterPort(p)
		out.Ports, problem = append(out.Ports, port), errors.Join(problem, err)
	}
	if problem != nil {
		r.problem("%s: %s", where, problem)
	}
	switch {
	case problem == nil && !r.closed:
		return append(rules, out)
	case out.Verdict == model.Allow:
		return append(rules, out.Nothing())
	case problem == nil && out.Verdict == model.Deny:
		return append(rules, out)
	}
	return append(rules, denyAll(in.name))
}

func denyAll(name string) model.Rule {
	return model.Rule{Name: name, Verdict: model.Deny, AnyPeer: true, AnyPort: true}
}

// clusterPods reads the two ways to select pods, of which exactly one is used.
func clusterPods(namespaces *metav1.LabelSelector, pods *policyv1alpha2.NamespacedPod) (match.Pods, error) {
	var out match.Pods
	var err error
	switch {
	case namespaces != nil && pods != nil:
		return out, errors.New("namespaces stands beside pods")
	case namespaces != nil:
		out.Namespaces, err = readSelector(namespaces)
	case pods != nil:
		if out.Namespaces, err = readSelector(&pods.NamespaceSelector); err != nil {
			break
		}
		out.Labels, err = readSelector(&pods.PodSelector)
	default:
		return out, errUnknown
	}
	return out, err
}

// egressPeers reads what a rule for sent packets names.
func egressPeers(in policyv1alpha2.ClusterNetworkPolicyEgressPeer) ([]model.Peer, error) {
	set := 0
	for _, is := range []bool{in.Namespaces != nil, in.Pods != nil, in.Nodes != nil, len(in.Networks) > 0, len(in.DomainNames) > 0} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return nil, errors.New("a peer has more than one field")
	case len(in.DomainNames) > 0:
		return nil, errors.New("domainNames are not supported")
	case in.Nodes != nil:
		nodes, err := readSelector(in.Nodes)
		return []model.Peer{{Nodes: &nodes}}, err
	case len(in.Networks) > 0:
		var out []model.Peer
		for _, n := range in.Networks {
			p, err := blockPeer(string(n), nil)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
		return out, nil
	}
	pods, err := clusterPods(in.Namespaces, in.Pods)
	return []model.Peer{{Pods: &pods}}, err
}

func clusterPort(in policyv1alpha2.ClusterNetworkPolicyProtocol) (model.PolicyPort, error) {
	set := 0
	for _, is := range []bool{in.TCP != nil, in.UDP != nil, in.SCTP != nil, in.DestinationNamedPort != ""} {
		if is {
			set++
		}
	}
	if set > 1 {
		return model.PolicyPort{}, errors.New("a protocol has more than one field")
	}
	switch {
	case in.TCP != nil:
		return destination(model.TCP, in.TCP.DestinationPort)
	case in.UDP != nil:
		return destination(model.UDP, in.UDP.DestinationPort)
	case in.SCTP != nil:
		return destination(model.SCTP, in.SCTP.DestinationPort)
	case in.DestinationNamedPort != "":
		return model.PolicyPort{Name: in.DestinationNamedPort}, nil
	}
	return model.PolicyPort{}, fmt.Errorf("a protocol: %w", errUnknown)
}

func destination(protocol model.Protocol, port *policyv1alpha2.Port) (model.PolicyPort, error) {
	out := model.PolicyPort{Protocol: protocol}
	switch {
	case port == nil:
		// A protocol with a field that this version does not know looks the same.
		return out, fmt.Errorf("protocol %s: %w", protocol, errUnknown)
	case port.Number != 0 && port.Range != nil:
		return out, errors.New("a port has both a number and a range")
	case port.Range != nil:
		return portRange(out, port.Range.Start, port.Range.End)
	}
	return portRange(out, port.Number, port.Number)
}
