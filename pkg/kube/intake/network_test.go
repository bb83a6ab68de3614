package intake

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// values compares addresses by what they are.
var values = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestNetwork(t *testing.T) {
	created := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	in := &v1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Name: "red", UID: "u1", Generation: 3,
			CreationTimestamp: metav1.NewTime(created),
			DeletionTimestamp: &metav1.Time{Time: created},
			Finalizers:        []string{"other", model.Finalizer},
		},
		Spec: v1alpha1.NetworkSpec{
			Type: v1alpha1.NetworkVPC, VPCID: "vpc-1", Tenant: "acme",
			AllowedNamespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"}},
			Subnets: []v1alpha1.Subnet{{
				Name: "front", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00::/64"}, GatewayIPs: []v1alpha1.IP{"10.0.0.254"},
				ExcludeIPs: []v1alpha1.AddressRange{"10.0.0.9", "10.0.0.128/25", "10.0.0.2 - 10.0.0.8", "fd00::10/124"},
			}},
		},
	}
	want := &model.Network{
		Name: "red", UID: "u1", Generation: 3, Created: created, Type: model.VPC, VPCID: "vpc-1", Tenant: "acme",
		Egress: model.EgressNode, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
		Allowed: &match.Selector{Requirements: []match.Requirement{
			{Key: "a", Op: match.In, Values: []string{"1"}}, {Key: "b", Op: match.In, Values: []string{"2"}},
		}},
		Subnets: []model.Subnet{{
			Name:     "front",
			CIDRs:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")},
			Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.254")},
			Exclude: []model.AddrRange{
				addrs("10.0.0.9", "10.0.0.9"), addrs("10.0.0.128", "10.0.0.255"),
				addrs("10.0.0.2", "10.0.0.8"), addrs("fd00::10", "fd00::1f"),
			},
		}},
		Deleting: true, Finalized: true,
	}
	if diff := cmp.Diff(want, Network(in), values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNetworkOfTypeAlone(t *testing.T) {
	in := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.NetworkSpec{Type: v1alpha1.NetworkFlat}}
	want := &model.Network{
		Name: "n", Type: model.Flat, Egress: model.EgressNode, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure,
		DNS: model.DNSNode,
	}
	if diff := cmp.Diff(want, Network(in), values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func addrs(first, last string) model.AddrRange {
	return model.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

func TestSubnetErrors(t *testing.T) {
	for name, test := range map[string]struct {
		given v1alpha1.Subnet
		want  string
	}{
		"not a range": {v1alpha1.Subnet{CIDRs: []v1alpha1.CIDR{"10.0.0.0"}}, `cidrs: "10.0.0.0" is not a range such as 10.0.0.0/16`},
		"ends as IPv4": {
			v1alpha1.Subnet{CIDRs: []v1alpha1.CIDR{"::/80"}},
			`cidrs: "::/80" ends among the IPv4 addresses in IPv6 form (::ffff:0:0/96), which no Network has`,
		},
		"host bits": {
			v1alpha1.Subnet{CIDRs: []v1alpha1.CIDR{"10.0.0.1/16"}}, `cidrs: "10.0.0.1/16" is an address inside a range; the range is 10.0.0.0/16`,
		},
		"two of one family": {
			v1alpha1.Subnet{CIDRs: []v1alpha1.CIDR{"10.0.0.0/16", "10.1.0.0/16"}}, "cidrs: 10.1.0.0/16 is a second IPv4 range; a subnet has one",
		},
		"IPv4 in IPv6": {
			v1alpha1.Subnet{GatewayIPs: []v1alpha1.IP{"::ffff:10.0.0.1"}},
			`gatewayIPs: "::ffff:10.0.0.1" is an IPv4 address in IPv6 form; write it as 10.0.0.1`,
		},
		"zone": {
			v1alpha1.Subnet{GatewayIPs: []v1alpha1.IP{"fe80::1%eth0"}}, `gatewayIPs: "fe80::1%eth0" names a zone, which has no meaning in a Network`,
		},
		"second gateway": {
			v1alpha1.Subnet{GatewayIPs: []v1alpha1.IP{"fd00::1", "fd00::2"}}, "gatewayIPs: fd00::2 is a second IPv6 gateway; a subnet has one",
		},
		"backwards": {
			v1alpha1.Subnet{ExcludeIPs: []v1alpha1.AddressRange{"10.0.0.9-10.0.0.8"}}, `excludeIPs: "10.0.0.9-10.0.0.8" ends before it begins`,
		},
		"mixed": {
			v1alpha1.Subnet{ExcludeIPs: []v1alpha1.AddressRange{"10.0.0.9-fd00::1"}}, `excludeIPs: "10.0.0.9-fd00::1" mixes IPv4 and IPv6`,
		},
		"half a range": {v1alpha1.Subnet{ExcludeIPs: []v1alpha1.AddressRange{"10.0.0.9-"}}, `excludeIPs: "" is not an IP address`},
		"two fields are told": {
			v1alpha1.Subnet{CIDRs: []v1alpha1.CIDR{"x"}, GatewayIPs: []v1alpha1.IP{"y"}},
			`cidrs: "x" is not a range such as 10.0.0.0/16; gatewayIPs: "y" is not an IP address`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := subnet(test.given).Error; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestNetworkIsBounded(t *testing.T) {
	in := &v1alpha1.Network{Spec: v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{{
		CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(strings.Repeat("x", 1<<20))},
	}}}}
	if got := len(Network(in).Subnets[0].Error); got > 512 {
		t.Errorf("an error of %d bytes quotes all that it was given", got)
	}
	for i := range 2 * maxSubnets {
		in.Spec.Subnets = append(in.Spec.Subnets, v1alpha1.Subnet{Name: fmt.Sprint(i)})
	}
	got := Network(in).Subnets
	if len(got) != maxSubnets || got[maxSubnets-1].Error == "" {
		t.Errorf("%d subnets were read; want %d, the last with an error", len(got), maxSubnets)
	}
	many := make([]v1alpha1.AddressRange, maxExcludes+1)
	for i := range many {
		many[i] = "10.0.0.1"
	}
	if s := subnet(v1alpha1.Subnet{ExcludeIPs: many}); len(s.Exclude) != maxExcludes || s.Error == "" {
		t.Errorf("%d excludes were read with error %q; want %d and an error", len(s.Exclude), s.Error, maxExcludes)
	}
}

func TestSelector(t *testing.T) {
	expression := func(key string, op metav1.LabelSelectorOperator, v ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: v}}}
	}
	tooMany := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range maxRequirements + 1 {
		tooMany.MatchLabels[fmt.Sprint("k", i)] = ""
	}
	blue := map[string]string{"team": "blue"}
	for name, test := range map[string]struct {
		given  *metav1.LabelSelector
		labels map[string]string
		want   bool
	}{
		"empty selects all":  {&metav1.LabelSelector{}, nil, true},
		"label":              {&metav1.LabelSelector{MatchLabels: blue}, blue, true},
		"other label":        {&metav1.LabelSelector{MatchLabels: blue}, map[string]string{"team": "red"}, false},
		"in":                 {expression("team", "In", "red", "blue"), blue, true},
		"not in":             {expression("team", "NotIn", "blue"), blue, false},
		"not in, absent":     {expression("team", "NotIn", "blue"), nil, true},
		"exists":             {expression("team", "Exists"), blue, true},
		"does not exist":     {expression("team", "DoesNotExist"), blue, false},
		"unknown operator":   {expression("team", "Like", "bl*"), blue, false},
		"in nothing":         {expression("team", "In"), blue, false},
		"exists with values": {expression("team", "Exists", "blue"), blue, false},
		"invalid key":        {expression("/", "DoesNotExist"), blue, false},
		"too many":           {tooMany, tooMany.MatchLabels, false},
		"one invalid among many": {
			&metav1.LabelSelector{MatchLabels: blue, MatchExpressions: expression("x", "Like").MatchExpressions}, blue, false,
		},
		"unreadable, without labels": {expression("team", "Like"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := selector(test.given).Matches(test.labels); got != test.want {
				t.Errorf("matches = %v, want %v", got, test.want)
			}
		})
	}
	if selector(nil) != nil {
		t.Error("no selector must stay none")
	}
}

func FuzzSelectorAgreesWithKubernetes(f *testing.F) {
	f.Add("team", "In", "blue", "team", "blue")
	f.Add("team", "NotIn", "blue", "", "")
	f.Add("team", "DoesNotExist", "", "other", "")
	f.Fuzz(func(t *testing.T, key, op, value, labelKey, labelValue string) {
		in := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: key, Operator: metav1.LabelSelectorOperator(op), Values: strings.Fields(value),
		}}}
		labels := map[string]string{labelKey: labelValue}
		got := selector(in).Matches(labels)
		theirs, err := metav1.LabelSelectorAsSelector(in)
		if want := err == nil && theirs.Matches(labelSet(labels)); got != want {
			t.Errorf("%+v on %v: got %v, want %v", in, labels, got, want)
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "10.0.0.0/8", "10.0.0.1-10.0.0.9", "::/0", "::/80", "fd00::1 - fd00::9", "1-", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRange(text)
		if err != nil {
			return
		}
		if !usable(r.First) || !usable(r.Last) || r.First.Is4() != r.Last.Is4() || r.Last.Less(r.First) {
			t.Errorf("%q was read as %s to %s", text, r.First, r.Last)
		}
	})
}

func TestReach(t *testing.T) {
	type reached struct {
		Egress  model.Egress
		Infra   model.InfraAccess
		Ingress model.InfraIngress
		DNS     model.DNSMode
		Service model.ServiceRef
	}
	for name, test := range map[string]struct {
		given v1alpha1.NetworkSpec
		want  reached
	}{
		"stored before the fields were there": {
			want: reached{Egress: model.EgressNode, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode},
		},
		"the defaults": {
			given: v1alpha1.NetworkSpec{
				Egress: "node", InfraAccess: "services", InfraIngress: "Infrastructure", DNS: &v1alpha1.NetworkDNS{Mode: "node"},
			},
			want: reached{Egress: model.EgressNode, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode},
		},
		"nothing": {
			given: v1alpha1.NetworkSpec{Egress: "none", InfraAccess: "none", InfraIngress: "None", DNS: &v1alpha1.NetworkDNS{Mode: "none"}},
			want:  reached{Egress: model.EgressNone, Infra: model.InfraNone, Ingress: model.InfraIngressNone, DNS: model.DNSNone},
		},
		"all, and a Service of the tenant": {
			given: v1alpha1.NetworkSpec{InfraAccess: "direct", InfraIngress: "All", DNS: &v1alpha1.NetworkDNS{
				Mode: "service", Service: &v1alpha1.ServiceReference{Namespace: "a", Name: "dns"},
			}},
			want: reached{
				model.EgressNode, model.InfraDirect, model.InfraIngressAll, model.DNSService, model.ServiceRef{Namespace: "a", Name: "dns"},
			},
		},
		"words of a later version open nothing": {
			given: v1alpha1.NetworkSpec{Egress: "gateway", InfraAccess: "more", InfraIngress: "Some", DNS: &v1alpha1.NetworkDNS{Mode: "other"}},
			want:  reached{Egress: model.EgressNone, Infra: model.InfraNone, Ingress: model.InfraIngressNone, DNS: model.DNSNone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := Network(&v1alpha1.Network{Spec: test.given})
			if diff := cmp.Diff(test.want, reached{n.Egress, n.Infra, n.Ingress, n.DNS, n.DNSService}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
