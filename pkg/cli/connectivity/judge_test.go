package connectivity

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
)

// whole is a scene in which all runs.
func whole() scene {
	s := scene{
		nodes: []string{"n1", "n2"}, nodeAddress: netip.MustParseAddr("192.0.2.1"), nodePort: 30080, faces: true, plainDirect: true,
		external: "www.example.com:443",
		redWeb:   netip.MustParseAddr("10.96.0.7"), blueWeb: netip.MustParseAddr("10.96.0.8"), api: netip.MustParseAddr("10.96.0.1"),
	}
	for i, p := range plan(DefaultCIDR, s.nodes) {
		p.uid, p.running, p.ready, p.face = string(rune('a'+i)), true, true, netip.AddrFrom4([4]byte{100, 64, 0, byte(i)})
		if !p.address.IsValid() {
			p.face = netip.AddrFrom4([4]byte{10, 244, 0, byte(i)})
			p.address = p.face
		}
		s.pods = append(s.pods, p)
	}
	return s
}

// everyPath are all paths of a scene.
func everyPath(s scene) []path {
	all := append(pathsOf(s), denyingPaths(s)...)
	all = append(all, allowingPaths(s)...)
	all = append(all, outsidePaths(s, netip.Addr{})...)
	return append(all, outsidePaths(s, netip.MustParseAddr("203.0.113.1"))...)
}

// TestJudge gives each path each answer that there can be: only the one that is expected is good.
func TestJudge(t *testing.T) {
	t.Parallel()
	s := whole()
	good := map[string]bool{}
	for _, p := range everyPath(s) {
		if p.skipped != "" {
			t.Errorf("%s from %s is not tried: %s", p.title, p.from, p.skipped)
		}
		answers := map[string]probe.Answer{
			"silence":  {Error: "dial tcp 10.231.0.13:8080: i/o timeout", Took: time.Second},
			"refused":  {Error: "connect: connection refused"},
			"missing":  {Missing: true},
			"stranger": {Answered: true, Answerer: probe.Identity{Namespace: "other", Name: "pod", UID: "z"}},
			"nameless": {Answered: true},
		}
		for _, one := range s.pods {
			answers[one.String()] = probe.Answer{Answered: true, Answerer: probe.Identity{UID: one.uid}}
		}
		for name, a := range answers {
			want := false
			switch w := p.wanted; {
			case w.missing:
				want = name == "missing"
			case w.nobody:
				want = !a.Answered
			case w.something:
				want = a.Answered
			default:
				for _, one := range w.answerers {
					want = want || one.String() == name
				}
			}
			r := judge(s, p, a)
			if (r.Verdict == OK) != want || r.Seen == "" || r.Expected == "" || (r.Next == "") != want {
				t.Errorf("%s from %s, %s: %+v, want good %v", p.title, p.from, name, r, want)
			}
			if want {
				good[p.title+p.from.String()] = true
			}
		}
	}
	for _, p := range everyPath(s) {
		if !good[p.title+p.from.String()] {
			t.Errorf("%s from %s can never be good", p.title, p.from)
		}
	}
}

// TestSameAddresses: the two Networks' servers have one address, on one node, and blue's lonely pod has one that nobody in red has.
func TestSameAddresses(t *testing.T) {
	t.Parallel()
	s := whole()
	one, other := s.pod(redServer), s.pod(blueServer)
	if one.address != other.address || one.node != other.node || one.uid == other.uid {
		t.Errorf("%+v and %+v", one, other)
	}
	for _, p := range s.pods {
		if p.namespace == red && p.address == s.pod(blueLonely).address {
			t.Errorf("%s has the address of %s, too", p.podName, blueLonely)
		}
	}
	if s.pod(redNear).node == s.pod(redFar).node {
		t.Error("near and far are on one node, though there are two")
	}
}

// TestNotTried: what cannot be tried says why, and never counts as good.
func TestNotTried(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*scene)
		title   string
		because string
	}{
		"one node":           {func(s *scene) { s.nodes = s.nodes[:1] }, "pod, another node, TCP", "one node"},
		"no faces":           {func(s *scene) { s.faces = false }, "face of the other Network's pod", "no faces"},
		"no direct access":   {func(s *scene) { s.plainDirect = false }, "node port, as from outside", "do not reach nodes"},
		"no default Network": {func(s *scene) { s.noPlain = "there is none" }, "default Network: pod to pod", "there is none"},
		"nobody outside":     {func(s *scene) { s.external = "" }, "outside of the cluster", "--external"},
		"the sender is down": {func(s *scene) { s.pods[1].running = false }, "name of an own Service", "pod red/near does not run"},
		"who is to be silent is down": {
			func(s *scene) { s.pods[4].running = false }, "address that only the other Network has, TCP", "pod blue/lonely does not run",
		},
		"who is to answer is down": {
			func(s *scene) { s.pods[2].running = false }, "policy that allows: whom it admits", "pod red/far does not run",
		},
		"no address": {func(s *scene) { s.redWeb = netip.Addr{} }, "Service, ClusterIP, TCP", "no address"},
	} {
		s := whole()
		test.change(&s)
		found := false
		for _, p := range everyPath(s) {
			if r := skip(p); p.title == test.title && strings.Contains(p.skipped, test.because) {
				found = true
				if r.Verdict != NotTried || !strings.Contains(r.Seen, test.because) {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
		if !found {
			t.Errorf("%s: %q is not left out because %q", name, test.title, test.because)
		}
	}
}

// TestExplain: what is to do next is a command of atoll's own, with the pods' names as they are in the cluster.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		q    probe.Question
		want string
	}{
		{probe.Question{Kind: probe.HTTP, Target: "10.231.0.12:8080"}, "atoll explain atoll-connectivity-red/near 10.231.0.12 --port 8080"},
		{
			probe.Question{Kind: probe.UDP, Target: "10.231.0.12:8080"},
			"atoll explain atoll-connectivity-red/near 10.231.0.12 --port 8080 --protocol udp",
		},
		{probe.Question{Kind: probe.Name, Target: "web"}, "atoll explain atoll-connectivity-red/near web --port 8080"},
		{probe.Question{Kind: probe.API}, "atoll explain atoll-connectivity-red/near kubernetes.default.svc --port 443"},
		{
			probe.Question{Kind: probe.Connect, Target: "www.example.com:443"},
			"atoll explain atoll-connectivity-red/near www.example.com --port 443",
		},
	} {
		if got := explain(redNear, test.q); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// TestCheckOptions: what cannot be a test is refused before anything is made.
func TestCheckOptions(t *testing.T) {
	t.Parallel()
	good := Options{CIDR: DefaultCIDR, Timeout: time.Minute}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"too small a range": func(o *Options) { o.CIDR = netip.MustParsePrefix("10.0.0.0/28") },
		"host bits":         func(o *Options) { o.CIDR = netip.MustParsePrefix("10.0.0.1/24") },
		"IPv6":              func(o *Options) { o.CIDR = netip.MustParsePrefix("fd00::/64") },
		"no port":           func(o *Options) { o.External = "www.example.com" },
		"no time":           func(o *Options) { o.Timeout = 0 },
	} {
		o := good
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
