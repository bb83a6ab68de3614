package policytrial_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
)

// nodes are so many, with 512 faces each.
const nodes = 20

// many is a Network with so many pods in ten namespaces, each with a label that no other pod has, and a policy in each namespace.
func many(pods int) policytrial.Question {
	q := policytrial.Question{
		Objects: model.NewChanges(),
		Defaults: decide.Defaults{
			Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14"), Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")},
		},
		Policies: map[model.PolicyKey]*model.Policy{},
	}
	q.Objects.Networks["red"] = &model.Network{
		Name: "red", UID: "uid-red", Generation: 1, Type: model.VPC, Finalized: true, Created: time.Unix(1, 0), Allowed: &match.Selector{},
		Egress: model.EgressNode, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure,
		Subnets: []model.Subnet{{Name: "all", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}},
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		q.Objects.Nodes[name] = &model.Node{
			Name: name, UID: "uid-" + name, Created: time.Unix(1, 0), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})},
			Assigned: &model.NodeNetwork{
				NodeUID: "uid-" + name, Faces: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(2 * i)}), 23)},
			},
		}
	}
	for i := range 10 {
		ns := fmt.Sprintf("ns%d", i)
		q.Objects.Namespaces[ns] = &model.Namespace{Name: ns, Labels: map[string]string{model.LabelNetwork: "red"}}
		web := selects(ns, "app", "web")
		p := &model.Policy{
			Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: "db"}, Tier: model.TierTenant, Subject: selects(ns, "app", "db"),
			Isolates: [2]bool{true, false},
		}
		p.Rules[model.PolicyIngress] = []model.Rule{
			{Verdict: model.Allow, Peers: []model.Peer{{Pods: &web}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5432}}},
		}
		q.Objects.Policies[p.Key] = p
	}
	for i := range pods {
		node, place := i/10%nodes, i/10/nodes*10+i%10
		own, face := [4]byte{10, 0, byte((i + 10) >> 8), byte(i + 10)}, [4]byte{100, 64, byte(2*node + place>>8), byte(place)}
		key := model.PodKey{Namespace: fmt.Sprintf("ns%d", i%10), Name: fmt.Sprintf("p%d", i)}
		q.Objects.Pods[key] = &model.Pod{
			Key: key, UID: "uid-" + key.String(), Node: fmt.Sprintf("n%d", node), Created: time.Unix(2, 0),
			Labels: map[string]string{"app": []string{"web", "db", "other"}[i/10%3], "own": fmt.Sprint(i)},
			Assigned: []model.Attachment{{
				PodUID: "uid-" + key.String(), Interface: model.DefaultInterface, Network: "red", NetworkUID: "uid-red", Subnet: "all",
				MAC:       fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", own[0], own[1], own[2], own[3]),
				Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(own), 16)},
				Gateways:  []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Faces: []netip.Addr{netip.AddrFrom4(face)},
			}},
		}
	}
	p := &model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "ns0", Name: "closed"}, Tier: model.TierTenant,
		Subject: match.Pods{Namespace: "ns0"}, Isolates: [2]bool{true, true},
	}
	q.Policies[p.Key] = p
	return q
}

func selects(namespace, key, value string) match.Pods {
	return match.Pods{
		Namespace: namespace, Labels: match.Selector{Requirements: []match.Requirement{{Key: key, Op: match.In, Values: []string{value}}}},
	}
}

// TestManyPodsAreFewGroups: what 10,000 pods cost follows from what policies ask of them, and no label that no policy asks for counts.
func TestManyPodsAreFewGroups(t *testing.T) {
	t.Parallel()
	began := time.Now()
	many, few := many(10_000), many(600)
	a, err := policytrial.Compare(many)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	b, err := policytrial.Compare(few)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 pods: %s, %d verdicts; %d selected, %d paths denied of %d pairs", took, a.Judged, a.Selected, a.Denied, a.DeniedPairs)
	if a.Selected != 1000 || a.Denied == 0 || a.Cut != "" {
		t.Errorf("%d selected, %d denied, cut: %q", a.Selected, a.Denied, a.Cut)
	}
	if a.Judged != b.Judged || a.Denied != b.Denied || a.DeniedPairs != b.DeniedPairs || len(a.Changes) != len(b.Changes) {
		t.Errorf("10,000 pods take %d verdicts and change %d, 600 take %d and change %d", a.Judged, a.Denied, b.Judged, b.Denied)
	}
}
