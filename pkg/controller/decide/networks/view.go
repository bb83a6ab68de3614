package networks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Exists reports whether there is a Network of that name.
func (s *Stage) Exists(name string) bool { return s.Get(name) != nil }

// View is what everybody sees who sees the Network, which exists.
func (s *Stage) View(name string) model.View {
	n := s.networks[name]
	status := s.status(n)
	out := model.View{
		Type: n.Model.Type, Phase: status.Phase, Conflicts: slices.Clone(n.conflicts[:min(len(n.conflicts), named)]),
		Egress: n.Model.Egress, Infra: n.Model.Infra, DNS: n.Model.DNS, ServiceCIDRs: s.Virtual.Served(name),
	}
	for _, c := range status.Conditions {
		if c.Type == model.ConditionReady {
			out.Reason, out.Message = c.Reason, c.Message
		}
	}
	if !ownMatter(out.Reason) {
		out.Message = fmt.Sprintf(
			"Network %q is not served as its owner asks: whoever runs the cluster finds out why with kubectl describe network", n.Name)
	}
	for subnet, r := range n.Layout.Ranges() {
		out.Subnets = append(out.Subnets, model.ViewedSubnet{Name: subnet, CIDR: r.CIDR, Gateway: r.Gateway})
	}
	return out
}

// ownMatter reports whether the words that come with a reason are about nobody but the Network: what the database refuses, or another
// Network has, may name others.
func ownMatter(reason string) bool {
	return slices.Contains([]string{
		"Ready", "Pending", "Terminating", model.ReasonDatabaseUnreachable, model.ReasonSubnetInvalid, model.ReasonServiceCIDRInvalid,
	}, reason)
}

// stateOf is what of a Network's status changes views beside its spec: not how many pods others have in it.
func stateOf(status model.NetworkStatus) string {
	words := []string{string(status.Phase)}
	for _, c := range status.Conditions {
		if c.Type == model.ConditionReady || c.Type == model.ConditionCIDRConflict {
			words = append(words, c.Reason, c.Message)
		}
	}
	return strings.Join(words, " ")
}
