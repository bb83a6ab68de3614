package controller

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// named is how many pods a message names before it only counts them.
const named = 3

// status is what a Network reports of itself; conflicts are its ranges that overlap the infrastructure's. The database
// has been away since then; the zero time when it is not.
func (n *network) status(conflicts []string, away time.Time) model.NetworkStatus {
	s := model.NetworkStatus{
		ObservedGeneration: n.model.Generation,
		Pods:               int64(len(n.attached)),
		Conditions: []model.Condition{
			n.subnetsValid(),
			n.podsAttached(away),
		},
	}
	ready := n.ready(s.Conditions[0], n.serviceCIDRsValid(), away)
	if len(n.model.ServiceCIDRs) > 0 || len(n.rangeProblems) > 0 {
		s.Conditions = append(s.Conditions, n.serviceCIDRsValid())
	}
	s.Conditions = append(s.Conditions, ready)
	if ready.Status {
		// It is ready as it was until the database has it as it is to be.
		s.ObservedGeneration = n.observed
	}
	switch {
	case n.model.Deleting:
		s.Phase = model.Terminating
		if len(n.attached) > 0 {
			s.Conditions = append(s.Conditions, n.inUse())
		}
	case len(n.layout.Subnets) == 0 || n.denied != nil:
		s.Phase = model.Failed
	case !away.IsZero():
		s.Phase = model.Unknown
	case !n.written:
		s.Phase = model.Pending
	case len(n.problems)+len(n.leaving)+len(n.rangeProblems) > 0:
		s.Phase = model.Degraded
	default:
		s.Phase = model.Ready
	}
	if len(conflicts) > 0 {
		s.Conditions = append(s.Conditions, conflicting(conflicts))
	}
	slices.SortFunc(s.Conditions, func(a, b model.Condition) int { return cmp.Compare(a.Type, b.Type) })
	for _, subnet := range n.layout.Subnets {
		for _, pool := range n.pools[subnet.Name] {
			s.Subnets = append(s.Subnets, model.SubnetStatus{
				Name: subnet.Name, CIDR: pool.Prefix().String(), Gateway: gatewayIn(subnet, pool.Prefix()), Used: pool.Used(), Free: pool.Free(),
			})
		}
	}
	for _, pool := range n.vips.ranges.Pools() {
		s.ServiceCIDRs = append(s.ServiceCIDRs, model.ServiceCIDRStatus{
			CIDR: pool.Prefix().String(), Used: pool.Used(), Free: pool.Free(),
		})
	}
	return s
}

func gatewayIn(subnet compile.SubnetLayout, cidr netip.Prefix) string {
	for _, r := range subnet.Ranges {
		if r.CIDR == cidr {
			return r.Gateway.String()
		}
	}
	return ""
}

func (n *network) subnetsValid() model.Condition {
	return valid(model.ConditionSubnetsValid, "every subnet is served", slices.Concat(n.problems, n.leaving))
}

func (n *network) serviceCIDRsValid() model.Condition {
	return valid(model.ConditionServiceCIDRsValid, "every service range is served", n.rangeProblems)
}

// valid is a condition that names what is wrong, or says that nothing is.
func valid(kind, message string, problems []model.Problem) model.Condition {
	c := model.Condition{Type: kind, Status: true, Reason: "Valid", Message: message}
	if len(problems) > 0 {
		var messages []string
		for _, p := range problems {
			messages = append(messages, p.Message)
		}
		c.Status, c.Reason, c.Message = false, problems[0].Reason, strings.Join(messages, "; ")
	}
	return c
}

func (n *network) podsAttached(away time.Time) model.Condition {
	c := model.Condition{Type: model.ConditionPodsAttached, Status: true, Reason: "Attached", Message: "every pod of the Network has its port"}
	without := len(n.failing) + len(n.deniedPods)
	if without == 0 {
		if !away.IsZero() {
			return unreachable(c.Type, away)
		}
		return c
	}
	problems := maps.Clone(n.deniedPods)
	for _, key := range first(n.failing, named) {
		problems[key] = n.failing[key]
	}
	keys := first(problems, named)
	var messages []string
	for _, key := range keys {
		messages = append(messages, fmt.Sprintf("%s: %s", key, problems[key].Message))
	}
	c.Status, c.Reason = false, problems[keys[0]].Reason
	c.Message = fmt.Sprintf("%s without a port: %s", count(without, "pod"), strings.Join(messages, "; "))
	if without > len(keys) {
		c.Message += fmt.Sprintf("; and %d more", without-len(keys))
	}
	return c
}

func (n *network) ready(subnets, ranges model.Condition, away time.Time) model.Condition {
	c := model.Condition{Type: model.ConditionReady, Status: true, Reason: "Ready", Message: "the Network is in OVN's northbound database"}
	switch {
	case n.denied != nil:
		c.Status, c.Reason, c.Message = false, n.denied.Reason, n.denied.Message
	case n.model.Deleting:
		c.Status, c.Reason, c.Message = false, "Terminating", "the Network is being deleted"
	case !subnets.Status:
		c.Status, c.Reason, c.Message = false, subnets.Reason, subnets.Message
	case !ranges.Status:
		c.Status, c.Reason, c.Message = false, ranges.Reason, ranges.Message
	case !away.IsZero():
		return unreachable(c.Type, away)
	case !n.written:
		c.Status, c.Reason, c.Message = false, "Pending", "the Network is not yet in OVN's northbound database"
	}
	return c
}

func (n *network) inUse() model.Condition {
	var names []string
	for _, key := range first(n.attached, named) {
		names = append(names, key.String())
	}
	message := fmt.Sprintf("%s must go first: %s", count(len(n.attached), "pod"), strings.Join(names, ", "))
	if len(n.attached) > len(names) {
		message += fmt.Sprintf(" and %d more", len(n.attached)-len(names))
	}
	return model.Condition{Type: model.ConditionInUse, Status: true, Reason: "PodsAttached", Message: message}
}

// first are the smallest n keys, in order: one look at each key, however many there are.
func first[V any](of map[model.PodKey]V, n int) []model.PodKey {
	keys := make([]model.PodKey, 0, n+1)
	for key := range of {
		if len(keys) == n && key.Compare(keys[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(keys, key, model.PodKey.Compare)
		keys = slices.Insert(keys, at, key)
		keys = keys[:min(len(keys), n)]
	}
	return keys
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
