package isolation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// network is acme's, as the API server makes it of a type alone.
func network() Network {
	return Network{Network: &model.Network{
		Name: "acme", Tenant: "acme", Type: model.VPC, Egress: model.EgressNode, Infra: model.InfraServices,
		Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
	}}
}

// only selects namespaces by one label.
func only(key string, op match.Operator, values ...string) *match.Selector {
	return &match.Selector{Requirements: []match.Requirement{{Key: key, Op: op, Values: values}}}
}

// text is a verdict in one line: pods, DNS, overall, reasons.
func text(i model.Isolation) string {
	words := []string{string(i.Pods), string(i.DNS), string(i.Overall)}
	for _, r := range i.Reasons {
		words = append(words, r.Reason)
	}
	return strings.Join(words, " ")
}

const allHard = "Hard Hard Hard"

// TestHardAndSoft is the table of docs/tenants.md: what each setting makes of a Network, towards everybody and towards other tenants.
func TestHardAndSoft(t *testing.T) {
	for _, test := range []struct {
		what   string
		set    func(n *Network)
		want   string
		toward string
	}{
		{"only the type is said", func(*Network) {}, allHard, allHard},
		{"egress: none", func(n *Network) { n.Egress = model.EgressNone }, allHard, allHard},
		{"infraAccess: none", func(n *Network) { n.Infra = model.InfraNone }, allHard, allHard},
		{
			"infraAccess: direct", func(n *Network) { n.Infra = model.InfraDirect }, "Soft Soft Soft InfraAccessDirect",
			"Soft Soft Soft InfraAccessDirect",
		},
		{"infraIngress: None", func(n *Network) { n.Ingress = model.InfraIngressNone }, allHard, allHard},
		{
			"infraIngress: All", func(n *Network) { n.Ingress = model.InfraIngressAll }, "Soft Hard Soft InfraIngressAll",
			"Soft Hard Soft InfraIngressAll",
		},
		{"dns: a Service of the Network", func(n *Network) { n.DNS = model.DNSService }, allHard, allHard},
		{"dns: none", func(n *Network) { n.DNS = model.DNSNone }, allHard, allHard},
		{"flat", func(n *Network) { n.Type = model.Flat }, "Soft Soft Soft FlatNetwork", "Soft Soft Soft FlatNetwork"},
		{
			"flat, and infraIngress, which says nothing there", func(n *Network) { n.Type, n.Ingress = model.Flat, model.InfraIngressAll },
			"Soft Soft Soft FlatNetwork", "Soft Soft Soft FlatNetwork",
		},
		{"the default Network", func(n *Network) { n.Default = true }, "Soft Soft Soft DefaultNetwork", "Soft Soft Soft DefaultNetwork"},
		{
			"a type that this version does not know", func(n *Network) { n.Type = "new" }, "Soft Soft Soft FlatNetwork",
			"Soft Soft Soft FlatNetwork",
		},

		{
			"all namespaces", func(n *Network) { n.Allowed = &match.Selector{} }, "Soft Soft Soft ForeignNamespaces",
			"Soft Soft Soft ForeignNamespaces",
		},
		{
			"another label", func(n *Network) { n.Allowed = only("team", match.In, "acme") }, "Soft Soft Soft ForeignNamespaces",
			"Soft Soft Soft ForeignNamespaces",
		},
		{
			"two tenants", func(n *Network) { n.Allowed = only(model.LabelTenant, match.In, "acme", "other") }, "Soft Soft Soft ForeignNamespaces",
			"Soft Soft Soft ForeignNamespaces",
		},
		{
			"all tenants but one", func(n *Network) { n.Allowed = only(model.LabelTenant, match.NotIn, "acme") }, "Soft Soft Soft ForeignNamespaces",
			"Soft Soft Soft ForeignNamespaces",
		},
		{"some of the tenant's", func(n *Network) { n.Allowed = only(model.LabelTenant, match.In, "acme") }, allHard, allHard},
		{"all namespaces, of a Network without a tenant", func(n *Network) { n.Tenant, n.Allowed = "", &match.Selector{} }, allHard, allHard},

		{
			"the tenant's own pods reach it", func(n *Network) { n.Consumers = []Peer{{"acme--web", "acme"}} }, "Soft Soft Soft ServesOtherNetworks",
			allHard,
		},
		{
			"it reaches the tenant's own", func(n *Network) { n.Providers = []Peer{{"acme--db", "acme"}} }, "Soft Soft Soft UsesOtherNetworks",
			allHard,
		},
		{
			"another tenant's pods reach it", func(n *Network) { n.Consumers = []Peer{{"red", "other"}} }, "Soft Soft Soft ServesOtherNetworks",
			"Soft Soft Soft ServesOtherNetworks",
		},
		{
			"it reaches another tenant's", func(n *Network) { n.Providers = []Peer{{"red", "other"}} }, "Soft Soft Soft UsesOtherNetworks",
			"Soft Soft Soft UsesOtherNetworks",
		},
		{
			"it reaches the cluster's", func(n *Network) { n.Providers = []Peer{{"red", ""}} }, "Soft Soft Soft UsesOtherNetworks",
			"Soft Soft Soft UsesOtherNetworks",
		},
		{
			"the tenant's own pods answer its questions for names", func(n *Network) {
				n.Providers, n.Answering = []Peer{{"acme--dns", "acme"}}, []Peer{{"acme--dns", "acme"}}
			},
			"Soft Soft Soft AnsweredByOthers UsesOtherNetworks", allHard,
		},
		{
			"another tenant's do", func(n *Network) { n.Providers, n.Answering = []Peer{{"red", "other"}}, []Peer{{"red", "other"}} },
			"Soft Soft Soft AnsweredByOthers UsesOtherNetworks", "Soft Soft Soft AnsweredByOthers UsesOtherNetworks",
		},
		{
			"privileged pods may join", func(n *Network) { n.Privileged = []string{"mine"} }, "Soft Soft Soft PrivilegedPods",
			"Soft Soft Soft PrivilegedPods",
		},
		{
			"privileged pods are there", func(n *Network) { n.Beyond, n.BeyondPods = []string{"mine"}, 2 }, "Soft Soft Soft PrivilegedPods",
			"Soft Soft Soft PrivilegedPods",
		},
		{
			"both", func(n *Network) { n.Privileged, n.Beyond, n.BeyondPods = []string{"other"}, []string{"mine"}, 1 },
			"Soft Soft Soft PrivilegedPods", "Soft Soft Soft PrivilegedPods",
		},
		{
			"of both", func(n *Network) { n.Infra, n.Consumers = model.InfraDirect, []Peer{{"acme--web", "acme"}} },
			"Soft Soft Soft InfraAccessDirect ServesOtherNetworks", "Soft Soft Soft InfraAccessDirect",
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			n := network()
			test.set(&n)
			if got := text(OfNetwork(n)); got != test.want {
				t.Errorf("the Network is %s, want %s", got, test.want)
			}
			if got := text(TowardsOthers(n)); got != test.toward {
				t.Errorf("towards others it is %s, want %s", got, test.toward)
			}
		})
	}
}

// TestReasonsNameAField: whoever reads a reason knows where to look, and is told of some of many.
func TestReasonsNameAField(t *testing.T) {
	n := network()
	n.Type, n.Infra, n.Allowed = model.Flat, model.InfraDirect, &match.Selector{}
	for i := range 100 {
		n.Consumers = append(n.Consumers, Peer{fmt.Sprintf("n%02d", i), "other"})
	}
	n.Providers, n.Answering = n.Consumers[:1], n.Consumers[:1]
	vpc := network()
	vpc.Ingress = model.InfraIngressAll
	for i := range 100 {
		vpc.Privileged = append(vpc.Privileged, fmt.Sprintf("namespace-%02d", i))
	}
	for _, r := range append(OfNetwork(n).Reasons, OfNetwork(vpc).Reasons...) {
		if !strings.Contains(r.Message, "spec.") || len(r.Message) > 250 {
			t.Errorf("%+v", r)
		}
	}
	want := `spec.compatibleWith lets pods of Network "n00" (tenant other), Network "n01" (tenant other), Network "n02" (tenant other), and 97 more reach its pods, and know its names: take them out of it`
	if got := OfNetwork(n).Reasons[4]; got.Message != want {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}

func TestOfTenant(t *testing.T) {
	walls := func(name string, set func(n *Network)) Walls {
		n := network()
		set(&n)
		i := TowardsOthers(n)
		return Walls{name, &i}
	}
	hard := walls("acme", func(*Network) {})
	among := walls("acme--db", func(n *Network) { n.Consumers = []Peer{{"acme", "acme"}} })
	open := func(name string) Walls { return walls(name, func(n *Network) { n.Ingress = model.InfraIngressAll }) }
	for _, test := range []struct {
		what      string
		own       []Walls
		elsewhere []string
		want      string
	}{
		{"its Networks reach one another only", []Walls{hard, among}, nil, allHard},
		{"one of them is soft", []Walls{hard, open("acme--web")}, nil, "Soft Hard Soft InfraIngressAll"},
		{
			"some are",
			[]Walls{open("a"), open("b"), walls("c", func(n *Network) { n.Infra = model.InfraDirect })},
			nil,
			"Soft Soft Soft InfraAccessDirect InfraIngressAll",
		},
		{"its pods are elsewhere", []Walls{hard}, []string{"default"}, "Soft Soft Soft PodsElsewhere"},
		{"there is no Network", nil, nil, ""},
		{"there is none, and pods are elsewhere", nil, []string{"default"}, ""},
		{"one is not known", []Walls{hard, {"acme--new", nil}}, nil, ""},
		{"one is not known, and another soft", []Walls{open("acme"), {"acme--new", nil}}, nil, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			got := ""
			if i := OfTenant(test.own, test.elsewhere); i != nil {
				got = text(*i)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	want := []model.Problem{{Reason: model.ReasonInfraIngressAll}}
	const message = "spec.infraIngress is All: every pod of the default Network reaches its pods: set it to Infrastructure or None"
	want[0].Message = fmt.Sprintf(`Network "a": %s; Network "b": %s; Network "c": %s; and 1 more`, message, message, message)
	if diff := cmp.Diff(want, OfTenant([]Walls{open("a"), open("b"), open("c"), open("d")}, nil).Reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChanged(t *testing.T) {
	hard, soft := OfNetwork(network()), model.Isolation{
		Overall: model.Soft, Reasons: []model.Problem{{Reason: "A", Message: "a"}, {Reason: "B", Message: "b"}},
	}
	for _, test := range []struct {
		before model.Hardness
		now    *model.Isolation
		want   *model.Problem
	}{
		{"", &hard, nil},
		{"", &soft, nil},
		{model.Hard, nil, nil},
		{model.Hard, &hard, nil},
		{model.Soft, &soft, nil},
		{model.Soft, &hard, &model.Problem{Reason: model.ReasonIsolationHard, Message: "isolation is hard now, and was soft"}},
		{model.Hard, &soft, &model.Problem{Reason: model.ReasonIsolationSoft, Message: "isolation is soft now, and was hard: a; b"}},
	} {
		if diff := cmp.Diff(test.want, Changed(test.before, test.now)); diff != "" {
			t.Errorf("from %q to %+v (-want +got):\n%s", test.before, test.now, diff)
		}
	}
}
