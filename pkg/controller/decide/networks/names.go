package networks

import (
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// dnsReady is the condition DNSReady of a Network: false where it has none, since its names are its nodes' matter and nothing is
// known to keep them from answering, or since nobody shall answer.
func (s *Stage) dnsReady(n *Network) (model.Condition, bool) {
	c := model.Condition{Type: model.ConditionDNSReady}
	if n.Default || n.Model.DNS == model.DNSNone {
		return c, false
	}
	key := model.ServiceKey(n.Model.DNSService)
	answering := s.Resolvers.Answering(key, n.Name)
	switch {
	case len(s.Resolvers.NameServers(n.Model)) == 0:
		c.Unknown, c.Reason = true, model.ReasonClusterDNSNotFound
		c.Message = fmt.Sprintf(
			"Service %s does not exist, whose addresses kubelets tell pods to ask for names: make it, or name the right one in "+
				"the AtollConfig (dns.service)", s.Cluster.DNS)
	case n.Model.DNS != model.DNSService && len(s.Cluster.Nameless()) > 0 && n.Layout.Faces:
		c.Reason = model.ReasonClusterDNSNotSet
		c.Message = fmt.Sprintf(
			"pods on %s have no names: the AtollConfig has no address of the cluster's DNS. Name those in dns.addresses "+
				"that kubelets have (clusterDNS)",
			nodesOf(s.Cluster.Nameless()))
	case n.Model.DNS != model.DNSService:
		return c, false
	case !answering.Reached && s.ofSameTenant(n, answering.Home):
		c.Reason = model.ReasonDNSServiceNotReached
		c.Message = fmt.Sprintf(
			"Service %s, which shall answer for names (spec.dns.service), is of Network %q, which this one does not reach: see "+
				"spec.compatibleWith of that one, and status.compatibility", key, answering.Home)
	case !answering.Reached:
		// Of others' Services nobody learns which there are.
		c.Reason = model.ReasonDNSServiceNotFound
		c.Message = fmt.Sprintf(
			"Service %s, which shall answer for names (spec.dns.service), does not exist, or is of no Network that this one reaches", key)
	case !answering.Answered:
		c.Reason = model.ReasonDNSServiceWithoutEndpoints
		c.Message = fmt.Sprintf(
			"Service %s, which shall answer for names (spec.dns.service), has no ready endpoint for the Network behind its ports for DNS", key)
	default:
		c.Status, c.Reason, c.Message = true, "Answered", fmt.Sprintf("Service %s answers for names", key)
	}
	return c, true
}

// ofSameTenant reports whether another Network is there, and of a Network's tenant.
func (s *Stage) ofSameTenant(n *Network, other string) bool {
	m := s.Model(other)
	return m != nil && other != n.Name && m.Tenant == n.Model.Tenant
}

// Asking are the Networks whose owners want a Service to answer for names; of the cluster's own DNS also those who want nobody
// to. Nobody changes them who reads them.
func (s *Stage) Asking(service model.ServiceKey) map[string]struct{} { return s.answered[service] }

// nodesOf names the first of some nodes.
func nodesOf(names []string) string {
	text := strings.Join(names[:min(len(names), named)], ", ")
	if more := len(names) - named; more > 0 {
		text += " and " + model.Count(more, "more node")
	}
	return text
}

// reportAnswered has Networks tell anew who answers for names in them, whose Service has changed or the cluster's own DNS has, or whose
// Service is of a Network that has moved.
func (s *Stage) reportAnswered() {
	if moved := s.moved.Take(); len(moved) > 0 {
		for key, asking := range s.answered {
			for name := range asking {
				if _, ok := moved[s.Resolvers.Answering(key, name).Home]; ok {
					s.unreported.Mark(name)
				}
			}
		}
	}
	for key := range s.answering.Take() {
		for name := range s.answered[key] {
			s.unreported.Mark(name)
		}
		if key == s.Cluster.DNS {
			s.reportAll()
		}
	}
}
