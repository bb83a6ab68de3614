package networks

import (
	"fmt"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
)

// dnsReady is the condition DNSReady of a Network: false where it has none, since its names are its nodes' matter and nothing is
// known to keep them from answering, or since nobody shall answer.
func (s *Stage) dnsReady(n *Network) (model.Condition, bool) {
	c := model.Condition{Type: model.ConditionDNSReady}
	if n.Default || n.Model.DNS == model.DNSNone {
		return c, false
	}
	key := model.ServiceKey(n.Model.DNSService)
	switch {
	case len(s.Resolvers.NameServers(n.Model)) == 0:
		c.Unknown, c.Reason = true, model.ReasonClusterDNSNotFound
		c.Message = fmt.Sprintf("Service %s does not exist, whose addresses kubelets tell pods to ask for names: make it, or name the right one in the AtollConfig (dns.service)", s.Cluster.DNS)
	case n.Model.DNS != model.DNSService && len(s.Cluster.Nameless()) > 0 && n.Layout.Faces:
		c.Reason = model.ReasonClusterDNSNotSet
		c.Message = fmt.Sprintf("pods on %s have no names: the AtollConfig has no address of the cluster's DNS. Name those in dns.addresses that kubelets have (clusterDNS)",
			nodesOf(s.Cluster.Nameless()))
	case n.Model.DNS != model.DNSService:
		return c, false
	case s.Catalog.Service(key) == nil:
		c.Reason = model.ReasonDNSServiceNotFound
		c.Message = fmt.Sprintf("Service %s, which shall answer for names (spec.dns.service), does not exist", key)
	case !s.Resolvers.Answered(key, n.Name):
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
		text += " and " + model.Count(more, "more node")
	}
	return text
}

// reportAnswered has Networks tell anew who answers for names in them, whose Service has changed or the cluster's own DNS has.
func (s *Stage) reportAnswered() {
	for key := range s.answering.Take() {
		for name := range s.answered[key] {
			s.unreported.Mark(name)
		}
		if key == s.Cluster.DNS {
			s.reportAll()
		}
	}
}
