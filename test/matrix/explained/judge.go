package explained

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Said is an explanation; Err, that there is none, and why.
type Said struct {
	Status api.ExplanationStatus
	Err    string
}

// Saw is what packets did.
type Saw struct {
	// Found is what the sender's look-up of the question's name gave.
	Found wire.Name
	// Dialled has what became of what was sent to each address.
	Dialled map[netip.Addr]random.Seen
}

// Verdict is an outcome of a path, as far as explain is sure of it.
type Verdict string

// The verdicts.
const (
	Reached Verdict = "reached"
	Stopped Verdict = "stopped"
	// Either: it may be led to several, and only some are reached.
	Either Verdict = "either"
)

// Verdict is what is said of the path as a whole.
func (s Said) Verdict() Verdict {
	some := slices.ContainsFunc(s.Status.Ways, func(w api.ExplanationWay) bool { return w.Reached })
	switch {
	case s.Status.Reached:
		return Reached
	case some:
		return Either
	}
	return Stopped
}

// claim is what an explanation says of one address that is dialled.
type claim struct {
	// to are who is reached, as they are called there, and seen the clients that they see.
	to, seen []string
	// stops are the steps that stop the others.
	stops []string
}

// claims are what is said of each address; ended are the ways on which nothing is dialled.
func (s Said) claims() (out map[netip.Addr]*claim, ended []string) {
	out = map[netip.Addr]*claim{}
	for _, w := range s.Status.Ways {
		a, dials := dialledBy(w)
		if !dials {
			ended = append(ended, lastStep(w))
			continue
		}
		c := out[a]
		if c == nil {
			c = &claim{}
			out[a] = c
		}
		if w.Reached {
			c.to, c.seen = append(c.to, w.To), append(c.seen, w.SeenAs)
		} else {
			c.stops = append(c.stops, lastStep(w))
		}
	}
	return out, ended
}

// dialledBy is the address that a way dials; false when it ends before that.
func dialledBy(w api.ExplanationWay) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(w.Dialled); err == nil {
		return at.Addr(), true
	}
	a, err := netip.ParseAddr(w.Dialled)
	return a, err == nil
}

func lastStep(w api.ExplanationWay) string {
	if len(w.There) == 0 {
		return "nothing"
	}
	return w.There[len(w.There)-1].What
}

// judge compares one question's answer with what was seen.
type judge struct {
	Stage
	q      Question
	claims map[netip.Addr]*claim
	ended  []string
}

// Judge is what an explanation says otherwise than what was seen, in words; empty when they agree.
func Judge(stage Stage, q Question, said Said, saw Saw) string {
	if said.Err != "" {
		return "it is not explained: " + said.Err
	}
	j := judge{Stage: stage, q: q}
	j.claims, j.ended = said.claims()
	if all := !slices.ContainsFunc(said.Status.Ways, func(w api.ExplanationWay) bool { return !w.Reached }); all != said.Status.Reached ||
		len(said.Status.Ways) == 0 {
		return fmt.Sprintf("it says reached %t of %d ways that say otherwise", said.Status.Reached, len(said.Status.Ways))
	}
	var wrong []string
	if q.Name != "" {
		if what := j.name(saw.Found); what != "" {
			wrong = append(wrong, what)
		}
	}
	for _, a := range slices.SortedFunc(keys(saw.Dialled), netip.Addr.Compare) {
		if what := j.dialled(a, saw.Dialled[a]); what != "" {
			wrong = append(wrong, fmt.Sprintf("dialled %s: %s", a, what))
		}
	}
	return strings.Join(wrong, "; ")
}

func keys[V any](m map[netip.Addr]V) func(func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for a := range m {
			if !yield(a) {
				return
			}
		}
	}
}

// name compares what a name is said to lead to with what the sender found.
func (j judge) name(found wire.Name) string {
	from := j.Pods[j.q.From]
	got := slices.DeleteFunc(slices.Clone(found.Addresses), func(a netip.Addr) bool { return !speaks(from, a) })
	if j.q.Name == j.OutsideName {
		if (len(got) > 0) != (len(j.claims) > 0) {
			return fmt.Sprintf("the name is %v %s, and it is said to lead to %d addresses: %v", got, found.Error, len(j.claims), j.ended)
		}
		return ""
	}
	want := slices.SortedFunc(keys(j.claims), netip.Addr.Compare)
	slices.SortFunc(got, netip.Addr.Compare)
	if !slices.Equal(want, got) {
		return fmt.Sprintf("the name is %v %s, and it is said to be %v %v", got, found.Error, want, j.ended)
	}
	return ""
}

// dialled compares what is said of an address with what became of what was sent to it.
func (j judge) dialled(a netip.Addr, seen random.Seen) string {
	c := j.claims[a]
	switch {
	case c == nil && j.q.Name != "" && j.q.Name == j.OutsideName:
		// It is explained by another address that stands for all.
		for other, same := range j.claims {
			if other.Is4() == a.Is4() {
				c = same
			}
		}
		if c == nil {
			return "nothing is said of it"
		}
	case c == nil && j.q.Meant != "":
		return j.notDialled(seen)
	case c == nil && (strings.HasPrefix(j.q.Spec.To, "svc/") || len(j.ended) > 0):
		// A Service is dialled by some of its addresses.
		if len(j.ended) > 0 && j.knows(seen) && answered(j.q, seen) && len(j.claims) == 0 {
			return fmt.Sprintf("it is said to be stopped before anything is dialled (%s), and %s answered", j.ended[0], seen.Result.Answerer)
		}
		return ""
	case c == nil:
		return "nothing is said of it"
	}
	return j.compare(c, seen)
}

// knows reports whether an answer says something. A place may send to what is nobody's in the cluster, where somebody outside answers.
func (j judge) knows(seen random.Seen) bool {
	return j.q.Place == "" || slices.ContainsFunc(j.Pods, func(p random.Placed) bool { return p.UID == seen.Result.Answerer.UID })
}

// notDialled: by this address the pod that is meant is said not to be dialled. In its own Network it may be reached by more than that.
func (j judge) notDialled(seen random.Seen) string {
	if j.q.From >= 0 {
		to := slices.IndexFunc(j.Pods, func(p random.Placed) bool { return p.UID == j.q.Meant })
		if j.Pods[to].Network == j.Pods[j.q.From].Network {
			return ""
		}
	}
	if slices.Contains(seen.Witnesses, j.q.Meant) || seen.Result.Answerer.UID == j.q.Meant {
		return "the pod that is meant is reached, and that address is not said to lead to it"
	}
	return ""
}

// compare sets one claim beside what was seen.
func (j judge) compare(c *claim, seen random.Seen) string {
	may := j.uids(c.to)
	got := answered(j.q, seen)
	for _, by := range seen.Witnesses {
		if !slices.Contains(may, by) {
			return fmt.Sprintf("%s has heard it, and it is said to get to %v, stopped by %v", j.called(by), c.to, c.stops)
		}
	}
	switch {
	case len(c.to) == 0 && (got || seen.Result.Connected):
		return fmt.Sprintf("it is said to be stopped (%s), and somebody answered: %+v", c.stops[0], seen.Result)
	case len(c.to) == 0, !got && j.unheard(c):
		return ""
	case len(c.stops) == 0 && !got:
		return fmt.Sprintf("it is said to get to %v, and nobody answered: %s; heard by %d", c.to, seen.Result.Error, len(seen.Witnesses))
	case !got || j.q.Strange || j.told(c):
		return ""
	}
	if by := seen.Result.Answerer.UID; by != "" && !slices.Contains(may, by) {
		return fmt.Sprintf("%s answered, and it is said to get to %v", seen.Result.Answerer, c.to)
	}
	return j.client(c, seen)
}

// told reports whether who is reached is nobody of the stage: then nobody tells who answered.
func (j judge) told(c *claim) bool {
	return slices.ContainsFunc(c.to, func(to string) bool { return !strings.HasPrefix(to, "pod ") })
}

// unheard reports whether it is said to leave for an address outside from which no answer by UDP comes: the server there answers
// from its own.
func (j judge) unheard(c *claim) bool {
	return j.q.Spec.Protocol == string(wire.UDP) && !slices.ContainsFunc(c.to, func(to string) bool {
		name, leaves := strings.CutPrefix(to, "outside, ")
		a, err := netip.ParseAddr(name)
		return !leaves || err != nil || slices.Contains(j.Outside, a)
	})
}

// client compares whom the receiver is said to see with whom it saw.
func (j judge) client(c *claim, seen random.Seen) string {
	for _, a := range seen.Clients {
		if !slices.Contains(c.seen, a.String()) {
			return fmt.Sprintf("it is seen as %s, and it is said to be seen as %v", a, c.seen)
		}
	}
	deaf := j.q.Spec.Protocol == string(wire.ICMP) &&
		slices.ContainsFunc(j.uids(c.to), func(uid string) bool { return slices.Contains(j.Mute, uid) })
	if len(seen.Clients) == 0 && !deaf && j.q.Place == "" && j.q.Spec.Port != otherPort {
		return fmt.Sprintf("it is answered, and no pod of %v has heard it", c.to)
	}
	return ""
}

// uids are the pods of those who are reached.
func (j judge) uids(to []string) (out []string) {
	for _, p := range j.Pods {
		if slices.Contains(to, "pod "+p.String()) {
			out = append(out, p.UID)
		}
	}
	return out
}

func (j judge) called(uid string) string {
	for _, p := range j.Pods {
		if p.UID == uid {
			return p.String()
		}
	}
	return uid
}

// answered: who is no netprobe, or is asked at its port for HTTP, takes a connection, and that is all.
func answered(q Question, seen random.Seen) bool {
	return seen.Result.Answered || seen.Result.Connected && (q.Strange || q.Spec.Port == otherPort || len(q.Dial) == 0)
}
