package explain

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	watch "github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/test/inspected"
)

// proofFor returns the proof of a question's explanation in a world. own are the asker's namespaces; none means that the asker may
// ask about everything.
func proofFor(w *inspected.World, t *testing.T, ask string, own ...string) *proof {
	t.Helper()
	q, err := questionOf(ask)
	if err != nil {
		t.Fatal(err)
	}
	world, limits := explainable(w), (*visibility.Limits)(nil)
	if len(own) > 0 {
		held := w.HeldOf()
		if limits, err = visibility.Of(held, q,
			func(namespace string) (bool, error) { return slices.Contains(own, namespace), nil }); err != nil {
			t.Fatal(err)
		}
		world = makeWorld(w.Rows, limits.Cut(w.Objects), inspected.Explained(), w.Bindings)
		world.whole = w.Objects
	}
	e := &explainer{World: world, q: q}
	answer, err := e.answer()
	if err != nil {
		t.Fatal(err)
	}
	targets, err := e.dialled(limits)
	if err != nil {
		t.Fatal(err)
	}
	p := e.proofOf(answer, limits)
	pod := w.Objects.Pods[q.From.Pod]
	p.node, p.network, p.targets = pod.Node, pod.Assigned[0].Network, targets
	return p
}

// at makes points: of a pod, of a porthole, or of a tunnel. Time is in microseconds.
type at struct {
	w *inspected.World
	// from and to are what a packet has as its addresses.
	from, to string
}

func (a at) point(kind nodeapi.Kind, out, answer bool, micros int64) nodeapi.Point {
	from, to := netip.MustParseAddrPort(a.from), netip.MustParseAddrPort(a.to)
	if answer {
		from, to = to, from
	}
	return nodeapi.Point{
		Packet: watch.Packet{Answer: answer, From: from, To: to}, Kind: kind, Interface: "link-" + string(kind), Out: out,
		Time: 1_000_000_000 + 1000*micros,
	}
}

func (a at) pod(name string, out, answer bool, micros int64) nodeapi.Point {
	p := a.point(nodeapi.KindPod, out, answer, micros)
	namespace, name, _ := strings.Cut(name, "/")
	p.Pod = nodeapi.Pod{Namespace: namespace, Name: name, UID: a.w.Objects.Pods[model.PodKey{Namespace: namespace, Name: name}].UID}
	return p
}

func (a at) tunnel(out, answer bool, micros int64) nodeapi.Point {
	p := a.point(nodeapi.KindOther, out, answer, micros)
	p.Tunnel = watch.Tunnel{From: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddr("192.0.2.2")}
	return p
}

// TestProofs: what was seen is compared with what was explained, and the sentence says both.
func TestProofs(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	a := at{w, w.OwnOf("red", "web").String() + ":4242", w.OwnOf("red", "db").String() + ":80"}
	answered := []ping.Reply{{Target: w.OwnOf("red", "db"), Number: 1, Answered: true, Took: time.Millisecond}}
	silent := []ping.Reply{{Target: w.OwnOf("red", "db"), Number: 1, Why: "no answer within 2s"}}
	there := []nodeapi.Point{a.pod("red/web", false, false, 0), a.tunnel(true, false, 40)}
	arrived := []nodeapi.Point{a.tunnel(false, false, 90), a.pod("red/db", true, false, 120)}
	back := []nodeapi.Point{a.pod("red/db", false, true, 150), a.tunnel(true, true, 180)}
	returned := []nodeapi.Point{a.tunnel(false, true, 230), a.pod("red/web", true, true, 260)}
	both := func(n1, n2 []nodeapi.Point) []Observed {
		return []Observed{{Node: "n1", Points: n1}, {Node: "n2", Points: n2}}
	}
	// A compromised node reports false points of another node's pods.
	elsewhere := []nodeapi.Point{a.pod("red/db", true, false, 120), a.pod("red/db", false, true, 150), a.pod("red/web", true, true, 260)}
	forged := a.pod("red/db", true, false, 120)
	forged.Pod.UID = "another"
	for name, c := range map[string]struct {
		ask     string
		seen    []Observed
		replies []ping.Reply
		verdict string
		says    string
	}{
		"it gets there and back": {
			"red/web red/db tcp 80", both(slices.Concat(there, returned), slices.Concat(arrived, back)), answered, api.SentAsExplained,
			"explained: it gets to pod red/db, and it gets to pod red/db in Network red, whose answer comes back",
		},
		"it gets there, and nobody answers": {
			"red/web red/db tcp 80", both(there, arrived), silent, api.SentAsExplained, "it gets to pod red/db in Network red; no answer within 2s",
		},
		"its answer is lost": {
			"red/web red/db tcp 80", both(there, slices.Concat(arrived, back)), silent, api.SentDiffers,
			"but its answer is lost: it is seen last at node n2, goes out by link-other, in a tunnel from",
		},
		"it is lost": {
			"red/web red/db tcp 80", both(there, nil), silent, api.SentDiffers,
			"explained: it gets to pod red/db, but it is seen last at node n1, goes out by link-other, in a tunnel from",
		},
		"it is lost in OVN": {
			"red/web red/db tcp 80", both(there[:1], nil), silent, api.SentDiffers, "but it is seen last at node n1, from the link of pod red/web",
		},
		"it does not leave": {
			"red/web red/db tcp 80", both(nil, nil), silent, api.SentDiffers, "but no packet leaves the pod",
		},
		"it gets to another": {
			"red/web red/db tcp 80", both(slices.Concat(there, []nodeapi.Point{a.pod("blue/client", true, false, 90)}), nil), silent,
			api.SentDiffers,
			"explained: it gets to pod red/db, but it gets to pod blue/client in Network blue",
		},
		"it gets to another that was made anew": {
			"red/web red/db tcp 80", both(there, []nodeapi.Point{forged}), silent, api.SentDiffers, "but it gets to a pod that is not known",
		},
		"another node says that it is lost": {
			"red/web red/db tcp 80", both(slices.Concat(there, elsewhere), nil), silent, api.SentDiffers, "but it gets to a pod that is not known",
		},
		"who got it sends it on": {
			"red/web red/db tcp 80", both(slices.Concat(there, returned, []nodeapi.Point{a.pod("red/friend", true, false, 10)}),
				slices.Concat(arrived, back)), answered, api.SentAsExplained,
			"it gets to pod red/db in Network red",
		},
		"it is not seen enough": {
			"red/web red/db tcp 80",
			[]Observed{{Node: "n1", Points: there}, {Node: "n2", Problem: "its agent is older"}},
			silent, api.SentUnknown,
			"not all was observed: node n2 is not observable: its agent is older",
		},
		"nobody has looked, but it is answered": {
			"red/web red/db tcp 80",
			[]Observed{{Node: "n1", Points: slices.Concat(there, returned)}, {Node: "n2", Problem: "its agent is older"}},
			answered, api.SentAsExplained, "it is answered",
		},
		"it is stopped": {
			"red/friend red/locked tcp 80", both([]nodeapi.Point{a.pod("red/friend", false, false, 0)}, nil), silent, api.SentAsExplained,
			"explained: it is stopped by policy on n2, and it is seen last at node n1, from the link of pod red/friend",
		},
		"it is stopped, and gets there": {
			"red/friend red/locked tcp 80", both([]nodeapi.Point{a.pod("red/friend", false, false, 0)},
				[]nodeapi.Point{a.pod("red/locked", true, false, 90)}), silent, api.SentDiffers,
			"explained: it is stopped by policy on n2, but it gets to pod red/locked in Network red",
		},
		"one of two endpoints": {
			"red/friend svc/red/two tcp 80", both([]nodeapi.Point{a.pod("red/friend", false, false, 0)}, nil), silent, api.SentAsExplained,
			"or is stopped by policy on n2, and it is seen last at",
		},
		"an address outside": {
			"blue/client 203.0.113.9 tcp 80",
			[]Observed{{Node: "n1", Points: []nodeapi.Point{a.pod("blue/client", false, false, 0), a.point(nodeapi.KindOther, true, false, 50)}}},
			silent, api.SentAsExplained,
			"it leaves blue by node n1, goes out by link-other",
		},
		"an address outside that a porthole stops": {
			"red/web 203.0.113.9 tcp 80",
			[]Observed{{Node: "n1", Points: []nodeapi.Point{a.pod("red/web", false, false, 0), a.point(nodeapi.KindPorthole, true, false, 50)}}},
			silent, api.SentAsExplained,
			"explained: it is stopped by porthole on n1, and it is seen last at node n1, into the porthole",
		},
	} {
		p := proofFor(w, t, c.ask)
		for i := range c.replies {
			c.replies[i].Target = p.targets[0]
		}
		got := p.judge(c.seen, slices.Clone(c.replies))
		if len(got) != len(p.targets) || got[0].Verdict != c.verdict || !strings.Contains(got[0].What, c.says) {
			t.Errorf("%s: %q, %s\nwant %q, %s", name, got[0].Verdict, got[0].What, c.verdict, c.says)
		}
	}
}

// TestClocksAreAligned: of a node whose clock is an hour ahead, times are told by the sender's clock, if the answer was seen
// there; else by its own, which is said.
func TestClocksAreAligned(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	a := at{w, w.OwnOf("red", "web").String() + ":4242", w.OwnOf("red", "db").String() + ":80"}
	const ahead = int64(time.Hour)
	n1 := []nodeapi.Point{
		a.pod("red/web", false, false, 0), a.tunnel(true, false, 40), a.tunnel(false, true, 240), a.pod("red/web", true, true, 260),
	}
	n2 := []nodeapi.Point{
		a.tunnel(false, false, 90), a.pod("red/db", true, false, 120), a.pod("red/db", false, true, 150), a.tunnel(true, true, 190),
	}
	for i := range n2 {
		n2[i].Time += ahead
	}
	p := proofFor(w, t, "red/web red/db tcp 80")
	got := p.judge([]Observed{{Node: "n1", Points: n1}, {Node: "n2", Points: n2}}, nil)[0]
	var times []int64
	for _, point := range slices.Concat(got.There, got.Back) {
		times = append(times, point.Microseconds)
		if point.OwnClock {
			t.Errorf("by its own clock: %+v", point)
		}
	}
	if want := []int64{0, 40, 90, 120, 150, 190, 240, 260}; !slices.Equal(times, want) {
		t.Errorf("it is seen after %v, want %v", times, want)
	}
	got = p.judge([]Observed{{Node: "n1", Points: n1[:2]}, {Node: "n2", Points: n2[:2]}}, nil)[0]
	if last := got.There[len(got.There)-1]; !last.OwnClock || got.There[0].OwnClock {
		t.Errorf("without an answer: %+v", got.There)
	}
}

// TestOthersPointsAreNotTold: an asker with one namespace sees no point, node, pod or address of another tenant, whatever the agents
// report. Of nodes that were not observed, the asker only learns that there are some. The control: an asker who may ask about
// everything sees them.
func TestOthersPointsAreNotTold(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	face := w.FaceOf("red", "web")
	const ask = "blue/client red/web tcp 80"
	a := at{w, w.OwnOf("blue", "client").String() + ":4242", face.String() + ":80"}
	inside := at{w, w.FaceOf("blue", "client").String() + ":4242", w.OwnOf("red", "web").String() + ":80"}
	mine, theirs := a.point(nodeapi.KindPorthole, true, false, 10), inside.point(nodeapi.KindHost, true, false, 50)
	mine.Network, theirs.Network = "blue", "red"
	across := inside.tunnel(true, false, 30)
	n1 := []nodeapi.Point{
		a.pod("blue/client", false, false, 0), mine, across, a.point(nodeapi.KindNode, true, false, 20), inside.pod("red/web", true, false, 60),
		inside.pod("red/web", false, true, 80),
	}
	n2 := []nodeapi.Point{theirs}
	seen := []Observed{{Node: "n1", Points: n1}, {Node: "n2", Points: n2}, {Node: "n9", Problem: "no route to 192.0.2.9"}}
	p := proofFor(w, t, strings.Replace(ask, "red/web", face.String(), 1), "blue")
	judged := p.judge(seen, nil)
	told, err := json.Marshal(judged)
	if err != nil {
		t.Fatal(err)
	}
	every, err := json.Marshal(proofFor(w, t, strings.Replace(ask, "red/web", face.String(), 1)).judge(seen, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"red/web", "Network red", "n2", "n9", "192.0.2.9", "192.0.2.1", "n1, goes out by link-other", inside.to} {
		if strings.Contains(string(told), secret) {
			t.Errorf("he is told of %s: %s", secret, told)
		}
		if secret != "n1, goes out by link-other" && !strings.Contains(string(every), secret) {
			t.Errorf("the control: of %s nobody is told: %s", secret, every)
		}
	}
	if got := judged[0]; !got.Hidden || got.Verdict != api.SentAsExplained || !strings.Contains(got.What, "it gets to somebody else") ||
		len(got.There) != 2 || len(got.Back) != 0 || len(got.Unobserved) != 1 {
		t.Errorf("he is told %s", told)
	}
	// Between the asker's own pods, nothing is hidden.
	b := at{w, w.OwnOf("red", "web").String() + ":4242", w.OwnOf("red", "db").String() + ":80"}
	own := []Observed{
		{Node: "n1", Points: []nodeapi.Point{b.pod("red/web", false, false, 0), b.tunnel(true, false, 40)}},
		{Node: "n2", Points: []nodeapi.Point{b.tunnel(false, false, 50), b.pod("red/db", true, false, 90)}},
	}
	if got := proofFor(w, t, "red/web red/db tcp 80", "red").judge(own, nil)[0]; got.Hidden || len(got.There) != 4 {
		t.Errorf("of his own pods he is told %+v", got)
	}
}
