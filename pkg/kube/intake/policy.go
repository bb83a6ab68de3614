package intake

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds on one policy: a tenant writes it, and every node of the Network reads what becomes of it.
const (
	maxPolicyRules = 1024
	maxRulePeers   = 1024
	maxRulePorts   = 1024
	// maxPolicyExceptions bounds the exceptions of all ipBlocks of a policy. Each one divides its block into up to 32 prefixes, or
	// 128 by IPv6.
	maxPolicyExceptions = 1024
	// maxPolicyNamed bounds a product: a rule's ports with a name, times its peers, added up over all rules. Each such pair has rows
	// of its own.
	maxPolicyNamed = 4096
	// maxPolicySelectors and maxPolicyBlocks bound a policy's peers over all its rules, each counted once. A selector is held with
	// each pod of the cluster that it selects, and each of them may be a port group, of which OVN makes two address sets.
	maxPolicySelectors = 256
	maxPolicyBlocks    = 1024
)

// NetworkPolicy reads a NetworkPolicy. What of it cannot be understood allows nothing and is named in Problems; when it is
// not plain which pods it selects, those are all of its namespace.
func NetworkPolicy(in *networkingv1.NetworkPolicy) *model.Policy {
	r := policyReader{namespace: in.Namespace}
	out := &model.Policy{
		Key:     model.PolicyKey{Kind: model.NetworkPolicy, Namespace: in.Namespace, Name: in.Name},
		UID:     string(in.UID),
		Tier:    model.TierTenant,
		Subject: match.Pods{Namespace: in.Namespace},
		Log:     in.Annotations[model.AnnotationLogPolicy] == "true",
	}
	labels, err := requirements(&in.Spec.PodSelector)
	if err != nil {
		r.problem("spec.podSelector: %s; every pod of the namespace is isolated", err)
		out.Isolates = [2]bool{true, true}
		out.Problems = r.problems
		return out
	}
	out.Subject.Labels = labels
	out.Isolates = r.policyTypes(in.Spec)
	if out.Isolates[model.PolicyIngress] {
		for i, rule := range in.Spec.Ingress {
			if i == maxPolicyRules {
				r.problem("spec.ingress: %d rules; at most %d are read", len(in.Spec.Ingress), maxPolicyRules)
				break
			}
			out.Rules[model.PolicyIngress] = append(out.Rules[model.PolicyIngress],
				r.rule(fmt.Sprintf("spec.ingress[%d]", i), rule.From, rule.Ports))
		}
	}
	if out.Isolates[model.PolicyEgress] {
		for i, rule := range in.Spec.Egress {
			if i == maxPolicyRules {
				r.problem("spec.egress: %d rules; at most %d are read", len(in.Spec.Egress), maxPolicyRules)
				break
			}
			out.Rules[model.PolicyEgress] = append(out.Rules[model.PolicyEgress], r.rule(fmt.Sprintf("spec.egress[%d]", i), rule.To, rule.Ports))
		}
	}
	out.Problems = r.problems
	return out
}

// policyReader reads the parts of one policy and gathers what is wrong with them.
type policyReader struct {
	namespace string
	problems  []model.Problem
	// exceptions and named are those read so far: maxPolicyExceptions, maxPolicyNamed.
	exceptions, named int
	// selectors and blocks are the texts of the peers read so far: maxPolicySelectors, maxPolicyBlocks.
	selectors, blocks map[string]struct{}
}

// maxPolicyProblems bounds how much is said of one policy.
const maxPolicyProblems = 8

func (r *policyReader) problem(format string, args ...any) {
	if len(r.problems) < maxPolicyProblems {
		r.problems = append(r.problems, model.Problem{Reason: model.ReasonPolicyInvalid, Message: bounded(fmt.Sprintf(format, args...))})
	}
}

// policyTypes says which directions the policy isolates. One that lists none isolates for what is received, and for what is
// sent if it has a rule for that.
func (r *policyReader) policyTypes(spec networkingv1.NetworkPolicySpec) [2]bool {
	if len(spec.PolicyTypes) == 0 {
		return [2]bool{true, len(spec.Egress) > 0}
	}
	var out [2]bool
	for _, t := range spec.PolicyTypes {
		switch t {
		case networkingv1.PolicyTypeIngress:
			out[model.PolicyIngress] = true
		case networkingv1.PolicyTypeEgress:
			out[model.PolicyEgress] = true
		default:
			r.problem("spec.policyTypes: there is no type %s; the pods are isolated in both directions", quote(string(t)))
			out = [2]bool{true, true}
		}
	}
	return out
}

// rule reads one rule. What of it cannot be read allows nothing; the rest counts.
func (r *policyReader) rule(where string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) model.Rule {
	out := model.Rule{Verdict: model.Allow, AnyPeer: len(peers) == 0, AnyPort: len(ports) == 0}
	if len(peers) > maxRulePeers || len(ports) > maxRulePorts {
		r.problem("%s: %d peers and %d ports; at most %d and %d are read", where, len(peers), len(ports), maxRulePeers, maxRulePorts)
		return out.Nothing()
	}
	for _, p := range ports {
		if p.Port != nil && p.Port.Type == intstr.String {
			r.named += max(1, len(peers))
		}
	}
	if r.named > maxPolicyNamed {
		r.problem("%s: ports with a name, times peers, are %d in the policy so far; at most %d are read", where, r.named, maxPolicyNamed)
		return out.Nothing()
	}
	for i, p := range peers {
		peer, err := r.peer(p)
		if err != nil {
			r.problem("%s, peer %d: %s; it allows nothing", where, i, err)
			continue
		}
		if err := r.count(peer); err != nil {
			r.problem("%s, peer %d and those after it that are not in the policy before: %s; they allow nothing", where, i, err)
			continue
		}
		out.Peers = append(out.Peers, peer)
	}
	for i, p := range ports {
		port, err := policyPort(p)
		if err != nil {
			r.problem("%s.ports[%d]: %s; it allows nothing", where, i, err)
			continue
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}

// count counts a peer that the policy does not have yet. It is an error when that is one too many.
func (r *policyReader) count(p model.Peer) error {
	if r.selectors == nil {
		r.selectors, r.blocks = map[string]struct{}{}, map[string]struct{}{}
	}
	var text string
	seen, most, kind := r.selectors, maxPolicySelectors, "selectors"
	if p.Block != nil {
		seen, most, kind, text = r.blocks, maxPolicyBlocks, "ipBlocks", p.Block.String()
	} else {
		text = p.Pods.String()
	}
	if _, had := seen[text]; had {
		return nil
	}
	if len(seen) == most {
		return fmt.Errorf("the policy has more than %d different %s", most, kind)
	}
	seen[text] = struct{}{}
	return nil
}

func (r *policyReader) peer(in networkingv1.NetworkPolicyPeer) (model.Peer, error) {
	selects := in.PodSelector != nil || in.NamespaceSelector != nil
	switch {
	case in.IPBlock != nil && selects:
		return model.Peer{}, fmt.Errorf("ipBlock stands beside a selector")
	case in.IPBlock != nil:
		if r.exceptions += len(in.IPBlock.Except); r.exceptions > maxPolicyExceptions {
			return model.Peer{}, fmt.Errorf("the exceptions of the policy's ipBlocks are %d so far; at most %d are read", r.exceptions,
				maxPolicyExceptions)
		}
		return blockPeer(in.IPBlock.CIDR, in.IPBlock.Except)
	case !selects:
		return model.Peer{}, fmt.Errorf("it has nothing that this version knows")
	}
	pods := match.Pods{}
	var err error
	if pods.Labels, err = requirements(in.PodSelector); err != nil {
		return model.Peer{}, fmt.Errorf("podSelector: %w", err)
	}
	if in.NamespaceSelector == nil {
		pods.Namespace = r.namespace
		return model.Peer{Pods: &pods}, nil
	}
	if pods.Namespaces, err = requirements(in.NamespaceSelector); err != nil {
		return model.Peer{}, fmt.Errorf("namespaceSelector: %w", err)
	}
	return model.Peer{Pods: &pods}, nil
}

// blockPeer reads a range of addresses and those that are left out of it.
func blockPeer(cidr string, except []string) (model.Peer, error) {
	whole, err := looseCIDR(cidr)
	if err != nil {
		return model.Peer{}, fmt.Errorf("cidr: %w", err)
	}
	block := model.Block{CIDR: whole}
	for _, text := range except {
		p, err := looseCIDR(text)
		if err != nil {
			return model.Peer{}, fmt.Errorf("except: %w", err)
		}
		block.Except = append(block.Except, p)
	}
	return model.Peer{Block: &block}, nil
}

// looseCIDR reads a CIDR as the API server takes it: its address may have bits beyond its length.
func looseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s is not a CIDR", quote(text))
	}
	return p.Masked(), nil
}

func policyPort(in networkingv1.NetworkPolicyPort) (model.PolicyPort, error) {
	name := ptr.Deref(in.Protocol, corev1.ProtocolTCP)
	protocol, known := protocols[name]
	if !known {
		return model.PolicyPort{Protocol: model.TCP}, fmt.Errorf("there is no protocol %s", quote(string(name)))
	}
	out := model.PolicyPort{Protocol: protocol}
	switch {
	case in.Port == nil && in.EndPort != nil:
		return out, fmt.Errorf("endPort stands without port")
	case in.Port == nil:
		return out, nil
	case in.Port.Type == intstr.String && in.EndPort != nil:
		return out, fmt.Errorf("endPort stands beside a name")
	case in.Port.Type == intstr.String && in.Port.StrVal == "":
		return out, fmt.Errorf("the name of the port is empty")
	case in.Port.Type == intstr.String:
		out.Name = in.Port.StrVal
		return out, nil
	}
	return portRange(out, in.Port.IntVal, ptr.Deref(in.EndPort, in.Port.IntVal))
}

func portRange(out model.PolicyPort, first, last int32) (model.PolicyPort, error) {
	if !portOK(first) || !portOK(last) || last < first {
		if first == last {
			return out, fmt.Errorf("%d is no port", first)
		}
		return out, fmt.Errorf("%d to %d are no ports", first, last)
	}
	out.First, out.Last = uint16(first), uint16(last)
	return out, nil
}

// requirements reads a label selector; nil and an empty one select everything.
func requirements(in *metav1.LabelSelector) (match.Selector, error) {
	if in == nil {
		return match.Selector{}, nil
	}
	return readSelector(in)
}
