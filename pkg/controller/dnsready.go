package controller

import (
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
)

// dnsReady is the condition DNSReady of a Network: false where it has none, since its names are its nodes' matter and nothing is
// known to keep them from answering, or since nobody shall answer.
func (s *State) dnsReady(n *network) (model.Condition, bool) {
	c := model.Condition{Type: model.ConditionDNSReady}
	if n.name == s.defaults.Network || n.model.DNS == model.DNSNone {
		return c, false
	}
	key := model.ServiceKey(n.model.DNSService)
	switch {
	case len(s.dnsAddresses(n)) == 0:
		c.Unknown, c.Reason = true, model.ReasonClusterDNSNotFound
		c.Message = fmt.Sprintf("Service %s does not exist, whose addresses kubelets tell pods to ask for names: make it, or name the right one to the controller (--dns-service)", s.defaults.DNS)
	case n.model.DNS != model.DNSService && len(s.reports.nameless) > 0 && n.layout.Faces:
		c.Reason = model.ReasonClusterDNSNotSet
		c.Message = fmt.Sprintf("pods on %s have no names: the agent there was not told the cluster's DNS. Start atoll-agent with --cluster-dns, as kubelet has it (clusterDNS)",
			nodesOf(s.reports.nameless))
	case n.model.DNS != model.DNSService:
		return c, false
	case s.services.byKey[key] == nil:
		c.Reason = model.ReasonDNSServiceNotFound
		c.Message = fmt.Sprintf("Service %s, which shall answer for names (spec.dns.service), does not exist", key)
	case len(s.policies.answers[key][n.name]) == 0:
		c.Reason = model.ReasonDNSServiceWithoutEndpoints
		c.Message = fmt.Sprintf("Service %s, which shall answer for names (spec.dns.service), has no ready endpoint for the Network behind its ports for DNS", key)
	default:
		c.Status, c.Reason, c.Message = true, "Answered", fmt.Sprintf("Service %s answers for names", key)
	}
	return c, true
}

// nodesOf names the first of some nodes.
func nodesOf(names []string) string {
	text := strings.Join(names[:min(len(names), named)], ", ")
	if more := len(names) - named; more > 0 {
		text += " and " + count(more, "more node")
	}
	return text
}

// touchAnswered has Networks tell anew who answers for names in them. all: the cluster's own DNS has changed.
func (s *State) touchAnswered(key model.ServiceKey, all bool) {
	for name := range s.answered[key] {
		s.touched[name] = struct{}{}
	}
	if all {
		s.touchAll()
	}
}
