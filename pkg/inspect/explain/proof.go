package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// proof compares an explanation with the observed packets.
type proof struct {
	from          model.PodKey
	node, network string
	port          uint16
	targets       []netip.Addr
	// ways are all that was explained, told what of it is told to who asks; limits is nil where that is everything.
	ways, told []Way
	limits     *visibility.Limits
	pods       map[model.PodKey]*model.Pod
	home       map[model.PodKey]string
	tunnels    map[netip.Addr]string
}

// seenPoint is where a packet was seen, and when: by the sender's clock, unless its node's could not be compared with it.
type seenPoint struct {
	nodeapi.Point
	node string
	own  bool
}

// judge says for each target what happened to the packet.
func (p *proof) judge(seen []Observed, replies []ping.Reply) []api.ExplanationSent {
	out := make([]api.ExplanationSent, 0, len(p.targets))
	for n, target := range p.targets {
		points := p.pointsOf(n, seen)
		t := &trial{proof: p, target: target, points: points, seen: seen}
		for _, r := range replies {
			if r.Target == target {
				t.reply = r
			}
		}
		out = append(out, t.sent())
	}
	return out
}

// pointsOf returns the points where the packet to a target was seen, by time.
func (p *proof) pointsOf(target int, seen []Observed) (out []seenPoint) {
	for _, o := range seen {
		for _, point := range o.Points {
			if point.Target == target {
				out = append(out, seenPoint{Point: point, node: o.Node})
			}
		}
	}
	p.align(out)
	slices.SortStableFunc(out, func(a, b seenPoint) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

// align puts the times of other nodes on the sender's clock, as NTP does (RFC 5905, section 8): what a packet and its answer take
// between the two nodes is taken for the same. Of a node that the answer was not seen on, times stay those of its own clock.
func (p *proof) align(points []seenPoint) {
	// The last of the packet and the first of the answer on the sender's node, the first and the last on each other one.
	var left, came int64
	first, last := map[string]int64{}, map[string]int64{}
	for _, s := range points {
		switch here := s.node == p.node; {
		case here && !s.Answer:
			left = max(left, s.Time)
		case here && (came == 0 || s.Time < came):
			came = s.Time
		case !here && !s.Answer && (first[s.node] == 0 || s.Time < first[s.node]):
			first[s.node] = s.Time
		case !here && s.Answer:
			last[s.node] = max(last[s.node], s.Time)
		}
	}
	for i := range points {
		s := &points[i]
		switch {
		case s.node == p.node:
		case left == 0 || came == 0 || first[s.node] == 0 || last[s.node] == 0:
			s.own = true
		default:
			s.Time -= ((first[s.node] - left) + (last[s.node] - came)) / 2
		}
	}
}

// trial is the packet to one target.
type trial struct {
	*proof
	target netip.Addr
	points []seenPoint
	seen   []Observed
	reply  ping.Reply
}

func (t *trial) sent() api.ExplanationSent {
	out := api.ExplanationSent{
		Dialled: addressText(t.target, t.port), Answered: t.reply.Answered, Took: meta.Duration{Duration: t.reply.Took}, Why: t.reply.Why,
		There: []api.ExplanationPoint{},
	}
	out.Verdict, out.What = t.verdict()
	for _, s := range t.points {
		if !t.mayBeTold(s) {
			out.Hidden = true
			continue
		}
		point := api.ExplanationPoint{
			Microseconds: (s.Time - t.points[0].Time) / 1000, OwnClock: s.own, Node: s.node, Network: t.networkOf(s), Interface: s.Interface,
			Where: t.where(s),
			From:  portText(s.From), To: portText(s.To), Refusal: s.Refusal,
		}
		if s.Answer {
			out.Back = append(out.Back, point)
		} else {
			out.There = append(out.There, point)
		}
	}
	out.Unobserved = t.unobserved()
	return out
}

func portText(a netip.AddrPort) string { return addressText(a.Addr(), a.Port()) }

// waysOf are those of the target, with what is told of each.
func (t *trial) waysOf() (out []Way) {
	for _, w := range t.ways {
		if visibility.AddressIn(w.Dialled) == t.target {
			out = append(out, w)
		}
	}
	return out
}

// verdict compares both, and says what was expected and what was seen.
func (t *trial) verdict() (verdict, what string) {
	want := t.expected()
	verdict, seen := t.compare(want)
	joint := map[string]string{api.SentAsExplained: ", and ", api.SentDiffers: ", but ", api.SentUnknown: "; "}
	return verdict, t.explained(want.reached, want.stopped) + joint[verdict] + seen
}

// expectation is the explanation's prediction for the target.
type expectation struct {
	// reached and stopped count the ways.
	reached, stopped int
	// ends are the pods that it may come to. elsewhere: it may come to what is no pod.
	ends      []model.PodKey
	elsewhere bool
}

func (t *trial) expected() (out expectation) {
	for _, w := range t.waysOf() {
		switch {
		case !w.Reached:
			out.stopped++
		case w.end == model.PodKey{}:
			out.reached, out.elsewhere = out.reached+1, true
		default:
			out.reached, out.ends = out.reached+1, append(out.ends, w.end)
		}
	}
	return out
}

// compare says whether what was seen is as it was explained, and what was seen.
func (t *trial) compare(want expectation) (verdict, seen string) {
	blind := t.blind()
	at, arrived := t.arrival(want.ends)
	switch {
	case arrived && !slices.Contains(want.ends, at):
		return api.SentDiffers, "it gets to " + t.nameOf(at)
	case arrived:
		if lost := t.lost(at, arrived); lost != "" && blind == "" {
			return api.SentDiffers, "its answer is lost: " + lost
		}
		if t.reply.Answered {
			return api.SentAsExplained, "it gets to " + t.nameOf(at) + ", whose answer comes back"
		}
		return api.SentAsExplained, "it gets to " + t.nameOf(at) + t.unanswered()
	case want.reached > 0 && t.reply.Answered:
		return api.SentAsExplained, "it is answered"
	case want.reached > 0 && want.elsewhere && t.pastOVN():
		return api.SentAsExplained, "it leaves " + t.network + " by " + t.lastPlace() + t.unanswered()
	case slices.Contains(want.ends, t.from) && len(t.points) == 0:
		return api.SentAsExplained, "no packet leaves the pod"
	case want.reached == 0 && t.reply.Answered:
		return api.SentDiffers, "it is answered"
	case want.reached > 0 && blind != "":
		return api.SentUnknown, t.progress() + ", and " + blind
	case want.stopped > 0:
		return api.SentAsExplained, t.progress() + t.refused()
	}
	return api.SentDiffers, t.progress() + t.refused()
}

// explained describes the explanation's prediction for the target, as far as the asker may see it.
func (t *trial) explained(reached, stopped int) string {
	var to, by []string
	for _, w := range t.told {
		if a := visibility.AddressIn(w.Dialled); a.IsValid() && a != t.target {
			continue
		}
		h := Hop{}
		if w.stopped() {
			h = w.There[len(w.There)-1]
		}
		switch where := fmt.Sprintf("by %s", h.Layer); {
		case w.Reached && w.To != "" && !slices.Contains(to, w.To):
			to = append(to, w.To)
		case !w.Reached && h.Node != "":
			by = append(by, where+" on "+h.Node)
		case !w.Reached:
			by = append(by, where)
		}
	}
	const most = 3
	if len(to) > most {
		to = append(to[:most], "others")
	}
	toText, byText := strings.Join(to, " or "), strings.Join(slices.Compact(by[:min(len(by), most)]), " or ")
	switch {
	case reached == 0:
		return "explained: it is stopped " + byText
	case stopped == 0:
		return "explained: it gets to " + toText
	}
	return fmt.Sprintf("explained: it gets to %s, or is stopped %s", toText, byText)
}

// arrival is the pod that the packet was handed to: one of those that it was to get to, if it was seen there, else the first. Who
// got it can send it on with its mark.
func (t *trial) arrival(ends []model.PodKey) (model.PodKey, bool) {
	var first model.PodKey
	found := false
	for _, s := range t.points {
		if s.Kind != nodeapi.KindPod || !s.Out || s.Answer {
			continue
		}
		key := t.podOf(s)
		if slices.Contains(ends, key) {
			return key, true
		}
		if !found {
			first, found = key, true
		}
	}
	return first, found
}

// podOf is the pod whose link it is; empty where it is of none that is known: one that has gone, or was made anew under its name.
// A node knows the links of its own pods alone: what it says of another node's is not believed.
func (t *trial) podOf(s seenPoint) model.PodKey {
	if p := t.pods[s.Pod.Key()]; p == nil || p.UID != s.Pod.UID || p.Node != s.node {
		return model.PodKey{}
	}
	return s.Pod.Key()
}

func (t *trial) nameOf(key model.PodKey) string {
	switch {
	case key == model.PodKey{}:
		return "a pod that is not known"
	case !t.own(key):
		return "somebody else"
	}
	if network := t.home[key]; network != "" {
		return fmt.Sprintf("pod %s in Network %s", key, network)
	}
	return "pod " + key.String()
}

// lost says where the answer was seen last, if whom the packet got to has sent one that has not come back; empty where it has, or
// has not answered.
func (t *trial) lost(at model.PodKey, arrived bool) string {
	sent, came := false, t.reply.Answered
	last := seenPoint{}
	for _, s := range t.points {
		if !s.Answer {
			continue
		}
		sent = sent || arrived && s.Kind == nodeapi.KindPod && !s.Out && t.podOf(s) == at
		came = came || s.Kind == nodeapi.KindPod && s.Out && t.podOf(s) == t.from
		if t.mayBeTold(s) {
			last = s
		}
	}
	switch {
	case !sent || came:
		return ""
	case last.node == "":
		return "somebody else has sent one"
	}
	return "it is seen last at " + t.place(last)
}

// unanswered says what the pod got instead of an answer.
func (t *trial) unanswered() string {
	if t.reply.Why == "" {
		return ""
	}
	return "; " + t.reply.Why
}

// refused reports whether the packet was refused.
func (t *trial) refused() string {
	for _, s := range t.points {
		if s.Refusal {
			return "; it is refused"
		}
	}
	return ""
}

// pastOVN reports whether the packet was seen beyond OVN and its portholes: on the node itself, or where it leaves it as it is.
func (t *trial) pastOVN() bool {
	return slices.ContainsFunc(t.points, func(s seenPoint) bool {
		return !s.Answer && !s.Tunnel.To.IsValid() && (s.Kind == nodeapi.KindHost || s.Kind == nodeapi.KindNode || s.Kind == nodeapi.KindOther)
	})
}

// progress says how far the packet got.
func (t *trial) progress() string {
	if place := t.lastPlace(); place != "" {
		return "it is seen last at " + place
	}
	if len(t.points) > 0 {
		return "what belongs to somebody else is where it is seen last"
	}
	return "no packet leaves the pod: is there anybody who answers for the address of its next hop?"
}

// lastPlace returns the last place where the packet was seen and that the asker may see. It is empty when there is none.
func (t *trial) lastPlace() string {
	for _, s := range slices.Backward(t.points) {
		if !s.Answer && t.mayBeTold(s) {
			return t.place(s)
		}
	}
	return ""
}

// blind says why the packet may have gone further than it was seen. It is empty when everything was observed.
func (t *trial) blind() string {
	if all := t.unobserved(); len(all) > 0 {
		return "not all was observed: " + all[0]
	}
	return ""
}
