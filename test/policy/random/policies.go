package random

import (
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// networkPolicy draws a NetworkPolicy of every field.
func networkPolicy() *rapid.Generator[netv1.NetworkPolicy] {
	return rapid.Custom(func(t *rapid.T) netv1.NetworkPolicy {
		var p netv1.NetworkPolicy
		p.Namespace = rapid.SampledFrom(namespaceNames()).Draw(t, "namespace")
		p.Name = "np" + strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "name"))
		p.Spec.PodSelector = selector("pod").Draw(t, "podSelector")
		p.Spec.PolicyTypes = rapid.SampledFrom([][]netv1.PolicyType{
			nil, {netv1.PolicyTypeIngress}, {netv1.PolicyTypeEgress}, {netv1.PolicyTypeIngress, netv1.PolicyTypeEgress},
		}).Draw(t, "policyTypes")
		rules := rapid.SliceOfN(rule(), 0, 4)
		for _, r := range rules.Draw(t, "ingress") {
			p.Spec.Ingress = append(p.Spec.Ingress, netv1.NetworkPolicyIngressRule{From: r.To, Ports: r.Ports})
		}
		p.Spec.Egress = rules.Draw(t, "egress")
		return p
	})
}

func networkPolicyKey(p netv1.NetworkPolicy) string { return p.Namespace + "/" + p.Name }

func rule() *rapid.Generator[netv1.NetworkPolicyEgressRule] {
	return rapid.Custom(func(t *rapid.T) netv1.NetworkPolicyEgressRule {
		return netv1.NetworkPolicyEgressRule{
			Ports: rapid.SliceOfN(policyPort(), 0, 2).Draw(t, "ports"),
			To:    rapid.SliceOfN(peer(), 0, 3).Draw(t, "peers"),
		}
	})
}

func policyPort() *rapid.Generator[netv1.NetworkPolicyPort] {
	return rapid.Custom(func(t *rapid.T) netv1.NetworkPolicyPort {
		var p netv1.NetworkPolicyPort
		if rapid.Bool().Draw(t, "with protocol") {
			protocol := protocols().Draw(t, "protocol")
			p.Protocol = &protocol
		}
		switch rapid.SampledFrom([]string{"number", "range", "name", "name", "none"}).Draw(t, "port") {
		case "number":
			number := intstr.FromInt32(rapid.SampledFrom(portNumbers()).Draw(t, "number"))
			p.Port = &number
		case "range":
			first, last := portRange(t)
			number := intstr.FromInt32(first)
			p.Port, p.EndPort = &number, &last
		case "name":
			name := intstr.FromString(rapid.SampledFrom(append(portNames(), "side")).Draw(t, "name"))
			p.Port = &name
		}
		return p
	})
}

func portRange(t *rapid.T) (first, last int32) {
	first, last = rapid.SampledFrom(portNumbers()).Draw(t, "first"), rapid.SampledFrom(portNumbers()).Draw(t, "last")
	return min(first, last), max(first, last)
}

func peer() *rapid.Generator[netv1.NetworkPolicyPeer] {
	return rapid.Custom(func(t *rapid.T) netv1.NetworkPolicyPeer {
		var p netv1.NetworkPolicyPeer
		of := rapid.SampledFrom([]string{"pods", "namespaces", "both", "block"}).Draw(t, "peer")
		if of == "pods" || of == "both" {
			s := selector("pod").Draw(t, "podSelector")
			p.PodSelector = &s
		}
		if of == "namespaces" || of == "both" {
			s := selector("namespace").Draw(t, "namespaceSelector")
			p.NamespaceSelector = &s
		}
		if of == "block" {
			p.IPBlock = block(t)
		}
		return p
	})
}

// block draws a range, and ranges within it that it leaves out.
func block(t *rapid.T) *netv1.IPBlock {
	whole := netip.MustParsePrefix(rapid.SampledFrom(ranges()).Draw(t, "cidr"))
	out := &netv1.IPBlock{CIDR: whole.String()}
	var within []string
	for _, text := range ranges() {
		if r := netip.MustParsePrefix(text); whole.Overlaps(r) && r.Bits() > whole.Bits() {
			within = append(within, text)
		}
	}
	if len(within) > 0 {
		least := rapid.IntRange(0, 1).Draw(t, "with except")
		out.Except = rapid.SliceOfNDistinct(rapid.SampledFrom(within), least, 2, rapid.ID[string]).Draw(t, "except")
	}
	return out
}

// ranges are what blocks are made of: everything, subnets of the Networks and parts of them, single pods, faces, nodes,
// Services, outside.
func ranges() []string {
	return []string{
		"0.0.0.0/0", "::/0", "10.0.0.0/24", "10.0.0.10/32", "10.0.0.8/30", "10.0.1.0/24", "10.0.0.0/8", "10.128.0.0/16",
		"10.128.0.10/32", "fd00:10::/64", "fd00:10::a/128", "fd00::/16", "fd00:11::/64", "fd00:128::/64", "203.0.113.0/24",
		"203.0.113.8/31", "2001:db8:9::/48", "2001:db8::/32", "2001:db8::8/125", "2001:db8::8/125", "192.0.2.0/24", "192.0.2.8/29",
		"192.0.2.12/32", "192.0.2.11/32", "10.96.0.0/16", "10.97.0.0/28",
		"100.64.0.0/10", "96.0.0.0/4", "100.64.0.10/32", "100.64.0.8/29", "100.64.2.8/29", "100.64.1.0/24",
		"fd64:a701::/64", "fd64:a701::a/128", "fd64:a701::8/125", "fd64:a701::208/125",
	}
}

// selector draws a selector of pods or namespaces.
func selector(of string) *rapid.Generator[metav1.LabelSelector] {
	return rapid.Custom(func(t *rapid.T) metav1.LabelSelector {
		var s metav1.LabelSelector
		values := []string{"a", "b"}
		form := rapid.SampledFrom([]string{"all", "labels", "expressions", "labels and expressions", "name"}).Draw(t, "selector")
		if form == "name" && of == "namespace" {
			s.MatchLabels = map[string]string{corev1.LabelMetadataName: rapid.SampledFrom(namespaceNames()).Draw(t, "name")}
			return s
		}
		if form == "labels" || form == "labels and expressions" {
			s.MatchLabels = map[string]string{
				rapid.SampledFrom(labelKeys(of)).Draw(t, "key"): rapid.SampledFrom(values).Draw(t, "value"),
			}
		}
		if form == "expressions" || form == "labels and expressions" {
			s.MatchExpressions = rapid.SliceOfN(expression(of, values), 1, 2).Draw(t, "expressions")
		}
		return s
	})
}

func expression(of string, values []string) *rapid.Generator[metav1.LabelSelectorRequirement] {
	return rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{
			Key: rapid.SampledFrom(labelKeys(of)).Draw(t, "key"),
			Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
				metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
			}).Draw(t, "operator"),
		}
		if slices.Contains([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}, r.Operator) {
			r.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 2, rapid.ID[string]).Draw(t, "values")
		}
		return r
	})
}
