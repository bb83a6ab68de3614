package compile_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// maxNamed is the bound of a policy's ports with names, in one Network.
const maxNamed = 4096

// dual is a Network of both IP families.
var dual = compile.Layout{Name: "red", UID: "uid-red", Subnets: []compile.SubnetLayout{{Name: "front", Ranges: []compile.Range{
	{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, {CIDR: netip.MustParsePrefix("fd00::/64")},
}}}}

// naming is a policy with rules that each name a port x and mean anybody.
func naming(d model.Direction, rules int, verdict model.Verdict) model.Policy {
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "team", Name: "p"}, Tier: model.TierTenant,
		Subject: match.Pods{Namespace: "team"},
	}
	p.Isolates[d] = true
	for range rules {
		p.Rules[d] = append(p.Rules[d], model.Rule{Verdict: verdict, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, Name: "x"}}})
	}
	return p
}

// numbersOf are as many ports of a name.
func numbersOf(name string, n int) (out []model.PodPort) {
	for i := range n {
		out = append(out, model.PodPort{Name: name, Protocol: model.TCP, Port: uint16(1000 + i)})
	}
	return out
}

// givenBy are the ports that one tenant gives.
func givenBy(tenant string, ports []model.PodPort) []compile.Given {
	if len(ports) == 0 {
		return nil
	}
	return []compile.Given{{Tenant: tenant, Ports: ports}}
}

// giving is a Network whose pods give all names of a policy as many numbers, and those of other Networks as well.
func giving(p model.Policy, own, remote int) compile.Around {
	in := compile.Around{
		Layout: dual, Remote: [2]bool{remote > 0, remote > 0},
		Named: map[compile.NamedPorts][]compile.Given{}, RemoteNamed: map[compile.NamedPorts][]compile.Given{},
	}
	for ask := range compile.Names(p) {
		in.Named[ask], in.RemoteNamed[ask] = givenBy("tenant a", numbersOf(ask.Name, own)), givenBy("tenant a", numbersOf(ask.Name, remote))
	}
	return in
}

// acls are a policy's ACLs in a Network.
func acls(p model.Policy, in compile.Around) (out []*nb.ACL) {
	for _, row := range compile.Policy(p, in).Rows {
		if acl, ok := row.(*nb.ACL); ok {
			out = append(out, acl)
		}
	}
	return out
}

// TestNumbersOfNamedPortsAreBounded: a policy's rules times the numbers that pods give the name. What is beyond allows nothing,
// has no groups, and is said. The controls are policies at the bound.
func TestNumbersOfNamedPortsAreBounded(t *testing.T) {
	t.Parallel()
	peers := func(p model.Policy, n int) model.Policy {
		for d := range p.Rules {
			for i := range p.Rules[d] {
				r := &p.Rules[d][i]
				r.AnyPeer = false
				for k := range n {
					r.Peers = append(r.Peers, model.Peer{Block: &model.Block{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(k)}), 32)}})
				}
			}
		}
		return p
	}
	for what, c := range map[string]struct {
		policy      model.Policy
		own, remote int
		rows        int
		beyond      bool
	}{
		"as many as are read":          {naming(model.PolicyIngress, 64, model.Allow), 64, 0, 4096, false},
		"one number more":              {naming(model.PolicyIngress, 64, model.Allow), 65, 0, 63 * 65, true},
		"rules and numbers by hundred": {naming(model.PolicyIngress, 1024, model.Allow), 2000, 0, 2 * 2000, true},
		"numbers of one rule":          {naming(model.PolicyIngress, 1, model.Allow), 4097, 0, 0, true},
		"peers count":                  {peers(naming(model.PolicyIngress, 1, model.Allow), 64), 64, 0, 64, false},
		"one number more of peers":     {peers(naming(model.PolicyIngress, 1, model.Allow), 64), 65, 0, 0, true},
		"blocks that pods send to":     {peers(naming(model.PolicyEgress, 1, model.Allow), 64), 65, 0, 0, true},
		// Each number has an ACL of each IP family where packets go to it.
		"of what pods send":               {naming(model.PolicyEgress, 64, model.Allow), 64, 0, 2 * 4096, false},
		"one more of what pods send":      {naming(model.PolicyEgress, 64, model.Allow), 65, 0, 2 * 63 * 65, true},
		"of other Networks":               {naming(model.PolicyEgress, 64, model.Allow), 1, 64, 2*64 + 2*4096, false},
		"other Networks take from others": {naming(model.PolicyEgress, 64, model.Allow), 1, 65, 2*64 + 2*63*65, true},
	} {
		in := giving(c.policy, c.own, c.remote)
		if rows := len(acls(c.policy, in)); rows != c.rows {
			t.Errorf("%s: %d ACLs, want %d", what, rows, c.rows)
		}
		named := 0
		for g := range compile.Groups(c.policy, in) {
			if strings.Contains(string(g), " port ") {
				named++
			}
		}
		if named > c.own+c.remote || c.rows == 0 && named > 0 {
			t.Errorf("%s: %d groups of pods with a name for %d ACLs", what, named, c.rows)
		}
		if said := compile.Beyond(c.policy, in); (len(said) > 0) != c.beyond {
			t.Errorf("%s: it says %v", what, said)
		}
	}
}

// TestManyNumbersTakeNothingFromOtherNames: pods give one name many numbers. The control is a name with as many.
func TestManyNumbersTakeNothingFromOtherNames(t *testing.T) {
	t.Parallel()
	p := naming(model.PolicyIngress, 64, model.Allow)
	other := p.Rules[model.PolicyIngress][0]
	other.Ports = []model.PolicyPort{{Protocol: model.TCP, Name: "web"}, {Protocol: model.UDP, First: 53, Last: 53}}
	p.Rules[model.PolicyIngress] = append(p.Rules[model.PolicyIngress], other)
	in := giving(p, 2000, 0)
	for numbers, want := range map[int]bool{2: true, 4097: false} {
		in.Named[compile.NamedPorts{Pods: p.Subject.String(), Name: "web", Protocol: model.TCP}] = givenBy("tenant a", numbersOf("web", numbers))
		var named, byNumber int
		for _, acl := range acls(p, in) {
			switch {
			case strings.Contains(ptr.Deref(acl.Name, ""), ":64") && strings.Contains(acl.Match, "udp.dst == 53"):
				byNumber++
			case strings.Contains(ptr.Deref(acl.Name, ""), ":64"):
				named++
			}
		}
		if byNumber != 1 || (named == numbers) != want || !want && named != 0 {
			t.Errorf("web has %d numbers: %d ACLs by name, and %d by number", numbers, named, byNumber)
		}
	}
}

// clusterNaming is a rule of a ClusterNetworkPolicy about ports x and pods of a namespace.
func clusterNaming(d model.Direction, verdict model.Verdict) model.Policy {
	p := naming(d, 1, verdict)
	p.Key, p.Tier, p.Isolates = model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "p"}, model.TierAdmin, [2]bool{}
	p.Rules[d][0].AnyPeer = false
	p.Rules[d][0].Peers = []model.Peer{{Pods: &match.Pods{Namespace: "others"}}}
	return p
}

// TestWhatDeniesStaysBeyondTheBound: a rule of a ClusterNetworkPolicy that denies or passes denies all ports of the pods of a
// tenant that gives its ports too many numbers. The control is one number less.
func TestWhatDeniesStaysBeyondTheBound(t *testing.T) {
	t.Parallel()
	for _, verdict := range []model.Verdict{model.Deny, model.Pass, model.Allow} {
		for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
			p := clusterNaming(d, verdict)
			if got := acls(p, giving(p, maxNamed, 0)); len(got) < maxNamed {
				t.Errorf("%s of %s: %d ACLs at the bound", verdict, d, len(got))
			}
			remotes := []int{0}
			if d == model.PolicyEgress {
				remotes = append(remotes, maxNamed+1)
			}
			for _, remote := range remotes {
				own := maxNamed + 1
				if remote > 0 {
					own = 1
				}
				wantClosed(t, p, giving(p, own, remote), remote > 0)
			}
		}
	}
}

// wantClosed compares the ACLs of a rule about a tenant that is beyond the bound, where one other number counts or none.
func wantClosed(t *testing.T, p model.Policy, in compile.Around, other bool) {
	t.Helper()
	d := model.PolicyIngress
	if len(p.Rules[d]) == 0 {
		d = model.PolicyEgress
	}
	verdict := p.Rules[d][0].Verdict
	var numbers, wide int
	for _, acl := range acls(p, in) {
		if strings.Contains(acl.Match, "tcp") {
			numbers++
			continue
		}
		if wide++; acl.Action != "drop" {
			t.Errorf("%s of %s: %s %s", verdict, d, acl.Action, acl.Match)
		}
		ofShare := false
		for g := range compile.Groups(p, in) {
			ofShare = ofShare || strings.Contains(string(g), " of ") && strings.Contains(acl.Match, compile.GroupName(in.Layout, g))
		}
		if !ofShare {
			t.Errorf("%s of %s: %s is not about one tenant's pods", verdict, d, acl.Match)
		}
	}
	wantWide, wantNumbers := 2, 0
	if verdict == model.Allow {
		wantWide = 0
	}
	if other {
		wantNumbers = 2
	}
	if wide != wantWide || numbers != wantNumbers {
		t.Errorf("%s of %s: %d ACLs of all ports and %d of numbers, want %d and %d", verdict, d, wide, numbers, wantWide, wantNumbers)
	}
	if r := p.Rules[d][0]; r.Verdict != verdict || len(r.Ports) != 1 {
		t.Errorf("the policy itself is another one: %s %v", r.Verdict, r.Ports)
	}
	if said := compile.Beyond(p, in); len(said) != 1 || !strings.Contains(said[0].Message, "denies its peers") {
		t.Errorf("%s of %s: it says %v", verdict, d, said)
	}
}

// BenchmarkNamedPorts: what a policy is in memory, by rules and numbers.
func BenchmarkNamedPorts(b *testing.B) {
	for _, size := range [][2]int{{64, 64}, {1024, 200}} {
		b.Run(fmt.Sprintf("%drules/%dnumbers", size[0], size[1]), func(b *testing.B) {
			p := naming(model.PolicyIngress, size[0], model.Allow)
			in := giving(p, size[1], 0)
			var rows, bytes float64
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				facts := compile.Policy(p, in)
				runtime.GC()
				runtime.ReadMemStats(&after)
				rows, bytes = float64(len(facts.Rows)), float64(after.HeapAlloc-before.HeapAlloc)
				runtime.KeepAlive(facts)
			}
			b.ReportMetric(rows, "rows")
			b.ReportMetric(bytes/1e6, "MB")
		})
	}
}
