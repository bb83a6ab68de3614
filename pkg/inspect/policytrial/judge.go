package policytrial

import (
	"fmt"
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// rows are what changes between two groups: by what is decided before and after, of each way.
type rows struct {
	found map[string]*row
	// ways are those that were judged, whether or not anything changes on them.
	ways map[way]bool
}

// way is by what addresses the one dials the other.
type way struct {
	v4, face bool
}

// row is what changes alike.
type row struct {
	before, after Verdict
	ports         map[way][]PortSet
}

// judge compares the verdicts about packets of all ports on a path.
func (c *comparison) judge(p path) error {
	at := c.pairs[p.pair]
	if at == nil {
		at = &rows{found: map[string]*row{}, ways: map[way]bool{}}
		c.pairs[p.pair] = at
		c.order = append(c.order, p.pair)
	}
	w := way{p.sent.To.Is4() || p.received.To.Is4(), p.face}
	at.ways[w] = true
	sets, err := c.cellsOf(p)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if err := c.spend(1 + len(set.Ranges)/trace.ValuesOfWork); err != nil {
			return err
		}
	}
	for _, set := range sets {
		for _, r := range set.Ranges {
			before, after, err := c.verdicts(p, set.Protocol, r.First)
			if err != nil {
				return err
			}
			if before.Allowed == after.Allowed {
				continue
			}
			key := fmt.Sprint(before, after)
			found := at.found[key]
			if found == nil {
				found = &row{before, after, map[way][]PortSet{}}
				at.found[key] = found
			}
			found.ports[w] = join(found.ports[w], set.Protocol, r)
		}
	}
	return nil
}

// cellsOf divides the ports of all protocols as the rows about both ends do.
func (c *comparison) cellsOf(p path) ([]PortSet, error) {
	if len(p.only) > 0 {
		return p.only, nil
	}
	starts := map[model.Protocol][][]uint16{}
	for _, s := range []side{c.before, c.after} {
		for d, e := range []end{p.dialled, p.begins} {
			if e.pod == nil {
				continue
			}
			found, err := s.db.Starts(c.ports[e.pod.Key], model.Direction(d))
			if err != nil {
				return nil, err
			}
			for protocol, edges := range found {
				starts[protocol] = append(starts[protocol], edges)
			}
		}
	}
	var out []PortSet
	for _, protocol := range protocols() {
		if protocol == trace.ICMP {
			out = append(out, PortSet{protocol, []Range{{}}})
			continue
		}
		out = append(out, PortSet{protocol, cells(starts[protocol]...)})
	}
	return out, nil
}

// verdicts judges one packet, before and after. Where the ends that the change can concern say the same as before, the others are
// not asked.
func (c *comparison) verdicts(p path, protocol model.Protocol, port uint16) (before, after Verdict, err error) {
	sent, received := p.sent, p.received
	sent.Protocol, sent.Port, received.Protocol, received.Port = protocol, port, protocol, port
	var was, is [2]*trace.Decision
	ask := func(d model.Direction) error {
		e := p.dialled
		if d == model.PolicyEgress {
			e = p.begins
		}
		if e.pod == nil || was[d] != nil {
			return nil
		}
		for i, s := range []side{c.before, c.after} {
			var decided trace.Decision
			var err error
			if c.out.Judged++; d == model.PolicyEgress {
				decided, err = s.db.Send(c.ports[e.pod.Key], sent, sent)
			} else {
				decided, err = s.db.Receive(c.ports[e.pod.Key], received)
			}
			if err != nil {
				return fmt.Errorf("judge %s: %w", e.pod.Key, err)
			}
			if i == 0 {
				was[d] = &decided
			} else {
				is[d] = &decided
			}
		}
		return nil
	}
	differs := false
	for d, e := range []end{p.dialled, p.begins} {
		if e.pod == nil || !c.concerns(e.kin, model.Direction(d)) {
			continue
		}
		if err := ask(model.Direction(d)); err != nil {
			return before, after, err
		}
		differs = differs || was[d].Allowed != is[d].Allowed
	}
	if !differs {
		return before, after, nil
	}
	for _, d := range []model.Direction{model.PolicyEgress, model.PolicyIngress} {
		if err := ask(d); err != nil {
			return before, after, err
		}
	}
	return c.before.verdict(p, was), c.after.verdict(p, is), nil
}

// verdict puts what both ends decide together: the first that denies, or all that allow.
func (s side) verdict(p path, decided [2]*trace.Decision) Verdict {
	out := Verdict{Allowed: true}
	for _, d := range []model.Direction{model.PolicyEgress, model.PolicyIngress} {
		decision := decided[d]
		if decision == nil {
			continue
		}
		origin, ours := decision.Origin()
		by := Decider{Direction: d, Origin: origin}
		if !decision.Allowed {
			if origin.Policy == nb.Isolation || origin.Rule == nb.RuleIsolation {
				by.Isolating = s.isolating(p, d)
			}
			return Verdict{Deciders: []Decider{by}}
		}
		if ours {
			out.Deciders = append(out.Deciders, by)
		}
	}
	return out
}

// isolating are the policies that isolate the pod at an end.
func (s side) isolating(p path, d model.Direction) (out []model.PolicyKey) {
	e := p.dialled
	if d == model.PolicyEgress {
		e = p.begins
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.policies), model.PolicyKey.Compare) {
		if policy := s.policies[key]; policy.Isolates[d] && policy.Subject.Matches(e.kin.target) {
			out = append(out, key)
		}
	}
	return out
}
