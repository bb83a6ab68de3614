package tenants

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// named is how many Networks a message names before it only counts them.
const named = 3

// status is what a Tenant reports, whose Networks are these.
func (s *Stage) status(t *model.Tenant, own []string) model.TenantStatus {
	networks, dns := s.networksReady(t, own), s.dnsReady(own)
	ready := readyOf(t, networks, dns)
	out := model.TenantStatus{
		ObservedGeneration: t.Generation, Phase: phaseOf(t, networks, ready),
		Networks: int64(len(own)), Namespaces: int64(len(s.spaces[t.Name])), Pods: int64(s.Pods.HeldBy(t.Name)),
		Services: int64(s.Services.Count(t.Name)), Gateways: int64(s.Gateways.Count(t.Name)),
	}
	if home := s.Networks.Model(t.Name); home != nil && home.Tenant == t.Name {
		out.DefaultNetwork = t.Name
	}
	out.Isolation = s.isolation(t, own)
	// Sorted by their types.
	out.Conditions = append(out.Conditions, dns)
	if t.Deleting && len(own) > 0 {
		out.Conditions = append(out.Conditions, inUse(own))
	}
	out.Conditions = append(out.Conditions, networks, ready)
	for _, q := range []struct {
		resource string
		quota    model.Quota
		used     int64
	}{
		{"gateways", t.Gateways, out.Gateways},
		{"networks", t.Networks, out.Networks},
		{"pods", t.Pods, out.Pods},
		{"services", t.Services, out.Services},
	} {
		if q.quota.Bounded {
			out.Quotas = append(out.Quotas, model.QuotaStatus{Resource: q.resource, Used: q.used, Hard: q.quota.Hard})
		}
	}
	return out
}

// networksReady says whether all Networks of a Tenant are ready, or which is not and why.
func (s *Stage) networksReady(t *model.Tenant, own []string) model.Condition {
	c := model.Condition{Type: model.ConditionNetworksReady}
	home := s.Networks.Model(t.Name)
	switch {
	case home != nil && home.Tenant != t.Name:
		c.Reason = model.ReasonNameTaken
		c.Message = fmt.Sprintf(
			"Network %q is not this Tenant's (its spec.tenant is %q) and has the name of its default Network: delete it, "+
				"or give the Tenant another name", t.Name, home.Tenant)
		return c
	case home == nil && !t.Deleting:
		c.Reason, c.Message = "Pending", fmt.Sprintf("the default Network, %q, is not there yet", t.Name)
		return c
	}
	return s.all(c, own, model.ConditionReady, "Ready", "every Network of the Tenant is ready")
}

// dnsReady says whether names are answered in all Networks of a Tenant, as far as is known.
func (s *Stage) dnsReady(own []string) model.Condition {
	return s.all(model.Condition{Type: model.ConditionDNSReady}, own, model.ConditionDNSReady, "Answered",
		"no Network of the Tenant says that its names are not answered")
}

// all summarizes one condition of the Tenant's Networks. A Network where it is false outweighs one where it is unknown. A Network
// without the condition is left out, except for Ready: such a Network is not ready yet.
func (s *Stage) all(c model.Condition, own []string, kind, reason, message string) model.Condition {
	var no, unknown []model.Condition
	for _, name := range own {
		conditions := s.Networks.Conditions(name)
		at := slices.IndexFunc(conditions, func(said model.Condition) bool { return said.Type == kind })
		said := model.Condition{Reason: "Pending", Message: "nothing is known of it yet"}
		switch {
		case at >= 0:
			said = conditions[at]
		case kind != model.ConditionReady:
			continue
		}
		said.Message = fmt.Sprintf("Network %q: %s", name, said.Message)
		switch {
		case said.Unknown:
			unknown = append(unknown, said)
		case !said.Status:
			no = append(no, said)
		}
	}
	wrong := no
	if len(no) == 0 {
		wrong, c.Unknown = unknown, len(unknown) > 0
	}
	if len(wrong) == 0 {
		c.Status, c.Reason, c.Message = true, reason, message
		return c
	}
	var messages []string
	for _, said := range wrong[:min(len(wrong), named)] {
		messages = append(messages, said.Message)
	}
	if more := len(wrong) - named; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	c.Reason, c.Message = wrong[0].Reason, strings.Join(messages, "; ")
	return c
}

// readyOf is false while Networks are not ready, or names are known not to be answered.
func readyOf(t *model.Tenant, networks, dns model.Condition) model.Condition {
	c := model.Condition{
		Type: model.ConditionReady, Status: true, Reason: "Ready", Message: "the Networks of the Tenant are ready, and names are answered there",
	}
	if t.Deleting {
		c.Status, c.Reason, c.Message = false, "Terminating", "the Tenant is being deleted"
		return c
	}
	switch {
	case !networks.Status:
		c = networks
	case !dns.Status && !dns.Unknown:
		c = dns
	}
	c.Type = model.ConditionReady
	return c
}

func phaseOf(t *model.Tenant, networks, ready model.Condition) model.Phase {
	switch {
	case t.Deleting:
		return model.Terminating
	case ready.Status:
		return model.Ready
	case networks.Reason == model.ReasonNameTaken:
		return model.Failed
	case ready.Unknown:
		return model.Unknown
	case ready.Reason == "Pending":
		return model.Pending
	}
	return model.Degraded
}

// inUse is the condition that a Tenant cannot go yet.
func inUse(own []string) model.Condition {
	names := strings.Join(own[:min(len(own), named)], ", ")
	if more := len(own) - named; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return model.Condition{
		Type: model.ConditionInUse, Status: true, Reason: "NetworksInUse",
		Message: fmt.Sprintf("%s must go first: %s. The default one goes by itself when its last pod has; delete the others",
			model.Count(len(own), "Network"), names),
	}
}
