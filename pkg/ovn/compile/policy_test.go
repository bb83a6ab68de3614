package compile_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestGoldenPolicies compiles each testdata/policies/*.in.yaml, a Network followed by policies, and compares the ACLs and
// what cannot be understood with the .out.txt beside it. In there a port group's name is its words.
func TestGoldenPolicies(t *testing.T) {
	compareFiles(t, "testdata/policies", ".out.txt", compilePolicies)
}

// surroundings are what policies of every case meet: two pods call a port http and one dns, one of another Network another port
// http, node n1 has two addresses, and behind the doors are two DNS pods and two API servers. Faces come from the ranges that a
// cluster has that says nothing else.
func surroundings(l compile.Layout, p model.Policy) compile.Around {
	in := compile.Around{
		Layout: l, Nodes: map[string][]netip.Addr{}, Faces: []netip.Prefix{
			netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64"),
		},
		Named: map[compile.NamedPorts][]compile.Given{}, RemoteNamed: map[compile.NamedPorts][]compile.Given{},
	}
	for ask := range compile.Names(p) {
		switch ask.Name {
		case "http":
			in.RemoteNamed[ask] = []compile.Given{{Ports: []model.PodPort{{Name: "http", Protocol: model.TCP, Port: 9090}}}}
			in.Named[ask] = []compile.Given{
				{Ports: []model.PodPort{{Name: "http", Protocol: model.TCP, Port: 80}, {Name: "http", Protocol: model.TCP, Port: 8080}}},
			}
		case "dns":
			in.Named[ask] = []compile.Given{{Ports: []model.PodPort{{Name: "dns", Protocol: model.UDP, Port: 53}}}}
		}
	}
	for _, r := range p.Rules[model.PolicyEgress] {
		for _, peer := range r.Peers {
			if peer.Nodes != nil {
				in.Nodes[peer.Nodes.String()] = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
			}
		}
	}
	dns := match.Target{
		Namespace: "kube-system", NamespaceLabels: map[string]string{"kubernetes.io/metadata.name": "kube-system"},
		Labels: map[string]string{"k8s-app": "kube-dns"},
	}
	for _, protocol := range []model.Protocol{model.UDP, model.TCP} {
		pod := compile.DoorPod{Target: dns, Port: model.PodPort{Name: "dns", Protocol: protocol, Port: 53}}
		in.Doors = append(in.Doors, compile.Door{
			Dial: netip.MustParseAddrPort("10.96.0.10:53"), Protocol: protocol, Pods: []compile.DoorPod{pod, pod},
		})
	}
	in.Doors = append(in.Doors, compile.Door{
		Dial: netip.MustParseAddrPort("10.96.0.1:443"), Protocol: model.TCP,
		Servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("192.0.2.2:6443")},
	})
	return in
}

func compilePolicies(t *testing.T, raw []byte) []byte {
	t.Helper()
	n, layout, _, documents := planFile(t, raw)
	var out bytes.Buffer
	groups := map[compile.Group]compile.Members{}
	for _, d := range documents {
		p := readPolicy(t, []byte(d))
		fmt.Fprintf(&out, "# %s\n", p.Key)
		for _, problem := range p.Problems {
			fmt.Fprintf(&out, "# %s: %s\n", problem.Reason, problem.Message)
		}
		in := surroundings(layout, *p)
		in.Remote = [2]bool{len(n.CompatibleWith) > 0, len(n.Uses) > 0}
		maps.Copy(groups, compile.Groups(*p, in))
		writeACLs(&out, layout, compile.Policy(*p, in), groups)
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if groups[g].Remote {
			fmt.Fprintf(&out, "# address sets [%s]\n", g)
			continue
		}
		fmt.Fprintf(&out, "# port group [%s]\n", g)
		writeACLs(&out, layout, compile.PortGroup(layout, g), groups)
	}
	return out.Bytes()
}

func readPolicy(t *testing.T, raw []byte) *model.Policy {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(raw, &kind); err != nil {
		t.Fatal(err)
	}
	if kind.Kind == "NetworkPolicy" {
		var p networkingv1.NetworkPolicy
		if err := yaml.UnmarshalStrict(raw, &p); err != nil {
			t.Fatal(err)
		}
		return intake.NetworkPolicy(&p)
	}
	var p policyv1alpha2.ClusterNetworkPolicy
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		t.Fatal(err)
	}
	return intake.ClusterNetworkPolicy(&p)
}

// writeACLs prints a line per ACL, in the order in which OVN asks them.
func writeACLs(out *bytes.Buffer, l compile.Layout, facts nb.Facts, groups map[compile.Group]compile.Members) {
	var words []string
	for g := range groups {
		words = append(words, compile.GroupName(l, g), "["+string(g)+"]")
	}
	names, on := strings.NewReplacer(words...), map[string]string{}
	for _, m := range facts.Members {
		for g := range groups {
			if compile.GroupRef(l, g) == m.Row {
				on[m.Value] = "[" + string(g) + "]"
			}
		}
	}
	var acls []*nb.ACL
	for _, row := range facts.Rows {
		if acl, ok := row.(*nb.ACL); ok {
			acls = append(acls, acl)
		}
	}
	slices.SortFunc(acls, func(a, b *nb.ACL) int {
		return cmp.Or(cmp.Compare(b.Direction, a.Direction), cmp.Compare(a.Tier, b.Tier), cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(names.Replace(a.Match), names.Replace(b.Match)))
	})
	for _, a := range acls {
		fmt.Fprintf(out, "%s %d/%d %s: %s\n", a.Direction, a.Tier, a.Priority, a.Action, names.Replace(a.Match))
		if on[a.UUID] == "" || !strings.Contains(names.Replace(a.Match), "@"+on[a.UUID]) && !strings.Contains(a.Match, " == @") {
			fmt.Fprintf(out, "  it hangs on %s\n", cmp.Or(on[a.UUID], "no port group of the case"))
		}
		if a.Log {
			fmt.Fprintln(out, "  logged")
		}
		if (a.Direction == "from-lport") != (a.Options["apply-after-lb"] == "true") {
			fmt.Fprintf(out, "  options %v\n", a.Options)
		}
	}
}
