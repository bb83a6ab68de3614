package trial

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// TriedFlows are flows that were seen, of which it is asked what policies would do to them. Nil: it is not asked.
type TriedFlows struct {
	Since time.Duration
	// Flows are those that who asks may be told of, Status how whole they are. Problem is why there are none.
	Flows   []api.Flow
	Status  api.FlowStatus
	Problem string
}

// maxTrialFlows bounds how many flows an answer has.
const maxTrialFlows = 500

// Networks are the Networks in which flows have to do with policies that are tried: those of the pods of their namespaces. Nil: all.
func Networks(s snapshot.Sources, tried Tried) ([]string, error) {
	held, err := s.Held()
	if err != nil {
		return nil, err
	}
	namespaces, out := map[string]bool{}, []string{}
	for key := range tried {
		if key.Namespace == "" {
			return nil, nil
		}
		namespaces[key.Namespace] = true
	}
	add := func(name string) {
		if held.Objects.Networks[name] != nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for name := range namespaces {
		if ns := held.Objects.Namespaces[name]; ns != nil {
			add(visible.Home(*ns, held.Default))
		}
	}
	for key, p := range held.Objects.Pods {
		if a := held.Attachment(p); a != nil && namespaces[key.Namespace] {
			add(a.Network)
		}
	}
	slices.Sort(out)
	return out, nil
}

// judged are the flows as they are judged.
func (t *TriedFlows) judged() []model.Flow {
	if t == nil {
		return nil
	}
	out := make([]model.Flow, 0, len(t.Flows))
	for _, f := range t.Flows {
		one := model.Flow{
			Network: f.Network, Direction: f.Direction, Policy: f.Policy, Rule: f.Rule, Verdict: f.Verdict, Protocol: f.Protocol, Port: f.Port,
			Minute: f.Minute.Time, Last: f.Last.Time,
			Connections: f.Connections,
		}
		one.Source, _ = netip.ParseAddr(f.From.Address)
		one.Destination, _ = netip.ParseAddr(f.To.Address)
		at := f.To
		if f.Direction == model.PolicyEgress.String() {
			at = f.From
		}
		if at.Kind == api.FlowPod {
			one.Pod = at.Name
		}
		out = append(out, one)
	}
	return out
}

// status is what would change of the flows: what is the same but for its minute, and for the end where it was seen, once.
func (t *TriedFlows) status(o policytrial.Outcome, verdict func(policytrial.Verdict) api.TrialVerdict) *api.TrialFlows {
	if t == nil {
		return nil
	}
	out := &api.TrialFlows{
		Since: meta.Duration{Duration: t.Since}, Problem: t.Problem, Seen: len(t.Flows), Status: t.Status, Unjudged: o.Unjudged,
		Unsampled: o.Unsampled,
	}
	type way struct {
		network, from, to, protocol string
		port                        uint16
		dropped                     bool
	}
	known := map[way]int{}
	for _, c := range o.Flows {
		f := t.Flows[c.Index]
		key := way{f.Network, f.From.Address, f.To.Address, f.Protocol, f.Port, c.After.Allowed}
		i, there := known[key]
		switch {
		case !there:
			known[key] = len(out.Changes)
			out.Changes = append(out.Changes, api.TrialFlow{Flow: f, Before: verdict(c.Before), After: verdict(c.After)})
			if c.After.Allowed {
				out.Allowed++
			} else {
				out.Stopped++
			}
		case out.Changes[i].Flow.Direction == f.Direction:
			has := &out.Changes[i].Flow
			has.Connections, has.Packets, has.Bytes = has.Connections+f.Connections, has.Packets+f.Packets, has.Bytes+f.Bytes
			if f.Last.After(has.Last.Time) {
				has.Minute, has.Last = f.Minute, f.Last
			}
		}
	}
	slices.SortStableFunc(out.Changes, func(a, b api.TrialFlow) int { return cmp.Compare(b.Flow.Connections, a.Flow.Connections) })
	out.Changes = out.Changes[:min(len(out.Changes), maxTrialFlows)]
	return out
}
