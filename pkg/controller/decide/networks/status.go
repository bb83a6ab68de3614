package networks

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// named is how many pods a message names before it only counts them.
const named = 3

// Report hands out the status of each Network about which something has changed.
func (s *Stage) Report() {
	s.reportAnswered()
	if s.Database.Held {
		return
	}
	for _, name := range pass.Sorted(s.unreported.Take()) {
		n := s.Get(name)
		if n == nil {
			continue
		}
		status := s.whole(n)
		s.Sink.WriteNetworkStatus(name, n.Model.UID, status)
		s.noteReported(n, status)
		if state := stateOf(status); state != n.seen {
			n.seen = state
			s.Seen.Changed(name)
		}
	}
}

// whole is what a Network reports of itself, with what depends on other objects.
func (s *Stage) whole(n *Network) model.NetworkStatus {
	status := s.status(n)
	if len(n.conflicts) > 0 {
		status.Conditions = append(status.Conditions, n.conflicting())
	}
	if c, has := s.dnsReady(n); has {
		status.Conditions = append(status.Conditions, c)
	}
	s.compatibility(n, &status)
	status.Isolation = s.isolation(n).towardsAll()
	slices.SortFunc(status.Conditions, func(a, b model.Condition) int { return cmp.Compare(a.Type, b.Type) })
	for _, pool := range s.Virtual.Pools(n.Name) {
		status.ServiceCIDRs = append(status.ServiceCIDRs, model.ServiceCIDRStatus{
			CIDR: pool.Prefix().String(), Used: pool.Used(), Free: pool.Free(),
		})
	}
	return status
}

// status is what a Network reports of itself alone.
func (s *Stage) status(n *Network) model.NetworkStatus {
	pods, away := s.Pods.Members(n.Name), s.Database.Away
	status := model.NetworkStatus{
		ObservedGeneration: n.Model.Generation,
		Pods:               int64(len(pods.Attached)),
		Conditions: []model.Condition{
			n.subnetsValid(),
			s.podsAttached(pods),
		},
	}
	ready := s.ready(n, status.Conditions[0])
	if len(n.Model.ServiceCIDRs) > 0 || len(n.rangeProblems) > 0 || n.wait.ranges {
		status.Conditions = append(status.Conditions, n.serviceCIDRsValid())
	}
	status.Conditions = append(status.Conditions, ready)
	if ready.Status {
		// It is ready as it was until the database has it as it is to be.
		status.ObservedGeneration = n.observed
	}
	switch {
	case n.Model.Deleting:
		status.Phase = model.Terminating
		if len(pods.Attached) > 0 {
			status.Conditions = append(status.Conditions, attached(pods.Attached))
		}
	case len(n.Layout.Subnets) == 0 && n.denied == nil && len(n.Problems) == 0 && n.wait.subnets:
		status.Phase = model.Pending
	case len(n.Layout.Subnets) == 0 || n.denied != nil:
		status.Phase = model.Failed
	case !away.IsZero():
		status.Phase = model.Unknown
	case !n.written:
		status.Phase = model.Pending
	case len(n.Problems)+len(n.leaving)+len(n.rangeProblems) > 0 || n.late:
		status.Phase = model.Degraded
	default:
		status.Phase = model.Ready
	}
	for _, subnet := range n.Layout.Subnets {
		for _, pool := range s.Subnets.Pools(n.Name, subnet.Name) {
			status.Subnets = append(status.Subnets, model.SubnetStatus{
				Name: subnet.Name, CIDR: pool.Prefix().String(), Gateway: gatewayIn(subnet, pool.Prefix()), Used: pool.Used(), Free: pool.Free(),
			})
		}
	}
	return status
}

func gatewayIn(subnet compile.SubnetLayout, cidr netip.Prefix) string {
	for _, r := range subnet.Ranges {
		if r.CIDR == cidr {
			return r.Gateway.String()
		}
	}
	return ""
}

func (n *Network) subnetsValid() model.Condition {
	return valid(model.ConditionSubnetsValid, "every subnet is served", slices.Concat(n.Withheld(), n.leaving))
}

func (n *Network) serviceCIDRsValid() model.Condition {
	return valid(model.ConditionServiceCIDRsValid,
		"every service range is served", slices.Concat(n.rangeProblems, n.wait.problems(n.wait.ranges)))
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

func (s *Stage) podsAttached(pods Members) model.Condition {
	c := model.Condition{Type: model.ConditionPodsAttached, Status: true, Reason: "Attached", Message: "every pod of the Network has its port"}
	without := len(pods.Failing) + len(pods.Denied)
	if without == 0 {
		if !s.Database.Away.IsZero() {
			return s.Database.Unreachable(c.Type)
		}
		return c
	}
	problems := maps.Clone(pods.Denied)
	if problems == nil {
		problems = map[model.PodKey]model.Problem{}
	}
	for _, key := range first(pods.Failing, named) {
		problems[key] = pods.Failing[key]
	}
	keys := first(problems, named)
	var messages []string
	for _, key := range keys {
		messages = append(messages, fmt.Sprintf("%s: %s", key, problems[key].Message))
	}
	c.Status, c.Reason = false, problems[keys[0]].Reason
	c.Message = fmt.Sprintf("%s without a port: %s", model.Count(without, "pod"), strings.Join(messages, "; "))
	if without > len(keys) {
		c.Message += fmt.Sprintf("; and %d more", without-len(keys))
	}
	return c
}

func (s *Stage) ready(n *Network, subnets model.Condition) model.Condition {
	c := model.Condition{Type: model.ConditionReady, Status: true, Reason: "Ready", Message: "the Network is in OVN's northbound database"}
	ranges := n.serviceCIDRsValid()
	switch {
	case n.denied != nil:
		c.Status, c.Reason, c.Message = false, n.denied.Reason, n.denied.Message
	case n.Model.Deleting:
		c.Status, c.Reason, c.Message = false, "Terminating", "the Network is being deleted"
	case !subnets.Status:
		c.Status, c.Reason, c.Message = false, subnets.Reason, subnets.Message
	case !ranges.Status:
		c.Status, c.Reason, c.Message = false, ranges.Reason, ranges.Message
	case n.wait.peers:
		c.Status, c.Reason, c.Message = false, n.wait.problem.Reason, n.wait.problem.Message
	case !s.Database.Away.IsZero():
		return s.Database.Unreachable(c.Type)
	case n.written && n.late:
		c.Status, c.Reason, c.Message = false, "Pending", "what was added to the Network is not yet in OVN's northbound database"
	case !n.written:
		c.Status, c.Reason, c.Message = false, "Pending", "the Network is not yet in OVN's northbound database"
	}
	return c
}

// attached is the condition that a Network cannot go yet.
func attached(pods map[model.PodKey]struct{}) model.Condition {
	return model.Condition{Type: model.ConditionInUse, Status: true, Reason: "PodsAttached", Message: mustGo(first(pods, named), len(pods))}
}

// mustGo names the first of some pods that are in the way.
func mustGo(some []model.PodKey, all int) string {
	message := fmt.Sprintf("%s must go first: %s", model.Count(all, "pod"), ledger.List(some))
	if more := all - len(some); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	return message
}

// first are the smallest n keys, in order: one look at each key, however many there are.
func first[V any](all map[model.PodKey]V, n int) []model.PodKey {
	keys := make([]model.PodKey, 0, n+1)
	for key := range all {
		if len(keys) == n && key.Compare(keys[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(keys, key, model.PodKey.Compare)
		keys = slices.Insert(keys, at, key)
		keys = keys[:min(len(keys), n)]
	}
	return keys
}
