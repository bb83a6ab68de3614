//go:build integration

package api

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/apiserver"
)

// network is the object with a spec in YAML.
func network(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(),
		"kind":       "Network",
		"metadata":   map[string]any{"name": name},
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatalf("read sample: %v", err)
	}
	if fields != nil {
		object["spec"] = fields
	}
	return &unstructured.Unstructured{Object: object}
}

func networksOf(t *testing.T, s *apiserver.Server) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
}

// expect compares an answer with the words that it must contain; empty words mean that it must be a yes.
func expect(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("refused: %v", err)
	case words != "" && err == nil:
		t.Errorf("admitted; want a refusal with %q", words)
	case words != "" && !strings.Contains(err.Error(), words):
		t.Errorf("refused with\n  %v\nwant the words\n  %s", err, words)
	}
}

// subnets is a spec with one subnet of the given fields.
func subnet(fields string) string {
	return "{type: vpc, subnets: [{name: a, " + fields + "}]}"
}

func testNetworks(t *testing.T, s *apiserver.Server) {
	const (
		notACIDR  = "must be a range in CIDR notation"
		notMasked = "must begin with the first address of the range"
		badLength = "must be /8 to /30 for IPv4 and /64 to /126 for IPv6"
		notHosts  = "must hold addresses that hosts can have"
		notAnIP   = "must be an IP address"
		notARange = "must be an address, a CIDR or a range"
	)
	networks := networksOf(t, s)
	for _, sample := range []struct {
		what, name, spec, refusal string
	}{
		{what: "type vpc alone", spec: "type: vpc"},
		{what: "type flat alone", spec: "type: flat"},
		{what: "vpcID", name: "vpc-1", spec: "{type: vpc, vpcID: vpc-1a2b3c4d}"},
		{what: "everything", spec: `
type: vpc
vpcID: vpc-1a2b3c4d
tenant: acme
allowedNamespaces:
  matchLabels: {team: web}
  matchExpressions: [{key: stage, operator: In, values: [test, live]}]
subnets:
- name: front
  cidrs: [10.0.0.0/24, "fd00:10::/64"]
  gatewayIPs: [10.0.0.254, "fd00:10::1"]
  excludeIPs: [10.0.0.9, 10.0.0.128/25, 10.0.0.2-10.0.0.8, "fd00:10::2-fd00:10::ff"]
- name: back
  cidrs: [10.0.1.0/24]`},
		{what: "every namespace", spec: "{type: vpc, allowedNamespaces: {}}"},
		{what: "no subnets", spec: "{type: vpc, subnets: []}"},

		{what: "a closed Network", spec: "{type: vpc, egress: none, infraAccess: none, dns: {mode: none}}"},
		{what: "an open Network", spec: "{type: vpc, egress: node, infraAccess: direct, dns: {mode: node}}"},
		{what: "DNS by a Service", spec: "{type: vpc, dns: {mode: service, service: {namespace: a, name: dns}}}"},

		{what: "service ranges", spec: "{type: vpc, serviceCIDRs: [10.9.0.0/16, 'fd09::/112']}"},
		{
			what: "a service range of a flat Network", spec: "{type: flat, serviceCIDRs: [10.9.0.0/16]}",
			refusal: "only a Network of type vpc has service ranges of its own",
		},
		{what: "no service range of a flat Network", spec: "{type: flat, serviceCIDRs: []}"},
		{
			what: "who reaches a flat Network", spec: "{type: flat, compatibleWith: [{all: true}]}",
			refusal: "only a Network of type vpc is compatible with others",
		},
		{what: "what a flat Network uses", spec: "{type: flat, uses: [red]}", refusal: "only a Network of type vpc uses others"},
		{
			what: "whose addresses a flat Network uses", spec: "{type: flat, usesAddressesOf: [red]}",
			refusal: "only a Network of type vpc uses others",
		},
		{what: "whose addresses a Network uses", spec: "{type: vpc, usesAddressesOf: [red], uses: [blue]}"},
		{what: "the same one's addresses twice", spec: "{type: vpc, usesAddressesOf: [red, red]}", refusal: "Duplicate value"},
		{what: "a nameless one's addresses", spec: "{type: vpc, usesAddressesOf: ['']}", refusal: "should be at least 1 chars long"},
		{
			what: "who reaches a Network, and how",
			spec: "{type: vpc, compatibleWith: [{network: red, addresses: true}, {tenant: acme, mode: Routed}, {all: true, mode: ByFace}]}",
		},
		{
			what: "one of two who reaches a Network", spec: "{type: vpc, compatibleWith: [{network: red, tenant: acme}]}",
			refusal: "name exactly one of network, tenant and all",
		},
		{
			what: "nobody who reaches a Network", spec: "{type: vpc, compatibleWith: [{all: false, addresses: true}]}",
			refusal: "name exactly one of network, tenant and all",
		},
		{what: "a mode that there is not", spec: "{type: vpc, compatibleWith: [{all: true, mode: Bridged}]}", refusal: "supported values"},
		{
			what: "ranges of others' Services",
			spec: "{type: vpc, usesServiceCIDRs: [{network: red, cidrs: [10.8.0.0/24, 'fd08::/112', 10.7.0.0/24]}, {network: " +
				"blue, cidrs: [10.8.0.0/24]}]}",
		},
		{
			what: "ranges of others' Services, of a flat Network", spec: "{type: flat, usesServiceCIDRs: [{network: red, cidrs: [10.8.0.0/24]}]}",
			refusal: "only a Network of type vpc uses others",
		},
		{
			what:    "the same one's ranges twice",
			spec:    "{type: vpc, usesServiceCIDRs: [{network: red, cidrs: [10.8.0.0/24]}, {network: red, cidrs: [10.7.0.0/24]}]}",
			refusal: "Duplicate value",
		},
		{what: "all addresses", spec: "{type: vpc, usesServiceCIDRs: [{network: red, cidrs: [0.0.0.0/0]}]}", refusal: "must be /8 to /30"},
		{what: "no ranges", spec: "{type: vpc, usesServiceCIDRs: [{network: red, cidrs: []}]}", refusal: "should have at least 1 items"},
		{
			what: "two IPv4 service ranges", spec: "{type: vpc, serviceCIDRs: [10.9.0.0/16, 10.8.0.0/16]}",
			refusal: "two ranges must be one IPv4 and one IPv6",
		},
		{
			what: "three service ranges", spec: "{type: vpc, serviceCIDRs: [10.9.0.0/16, 'fd09::/112', 'fd08::/112']}",
			refusal: "spec.serviceCIDRs: Too many: 3",
		},
		{what: "a service range with host bits", spec: "{type: vpc, serviceCIDRs: [10.9.0.1/16]}", refusal: notMasked},
		{what: "a service range of link-local addresses", spec: "{type: vpc, serviceCIDRs: [169.254.0.0/16]}", refusal: notHosts},
		{what: "a service range that is a word", spec: "{type: vpc, serviceCIDRs: [all]}", refusal: notACIDR},
		{what: "a service range that is a subnet", spec: "{type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/16]}], serviceCIDRs: [10.0.0.0/16]}"},

		// The controller judges these and says so in a condition.
		{what: "subnets that overlap", spec: "{type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/16]}, {name: b, cidrs: [10.0.1.0/24]}]}"},
		{what: "excluded addresses outside", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [192.168.0.1]")},
		{what: "range upside down", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [10.0.0.9-10.0.0.2]")},
		{what: "selector without meaning", spec: "{type: vpc, allowedNamespaces: {matchExpressions: [{key: a, operator: Like}]}}"},

		{what: "no spec", spec: "", refusal: "spec: Required value"},
		{what: "no type", spec: "{tenant: acme}", refusal: "spec.type: Required value"},
		{what: "unknown type", spec: "type: vlan", refusal: `spec.type: Unsupported value: "vlan": supported values: "flat", "vpc"`},
		{what: "a field that does not exist", spec: "{type: vpc, gress: none}", refusal: `unknown field "spec.gress"`},
		{
			what: "unknown egress", spec: "{type: vpc, egress: somewhere}",
			refusal: `spec.egress: Unsupported value: "somewhere": supported values: "none", "node"`,
		},
		{what: "a Network that nobody dials", spec: "{type: vpc, infraIngress: None}"},
		{what: "a Network that everybody dials", spec: "{type: vpc, infraIngress: All}"},
		{what: "unknown ingress", spec: "{type: vpc, infraIngress: Nobody}", refusal: `spec.infraIngress: Unsupported value: "Nobody"`},
		{what: "unknown access", spec: "{type: vpc, infraAccess: all}", refusal: `spec.infraAccess: Unsupported value: "all"`},
		{what: "unknown mode of DNS", spec: "{type: vpc, dns: {mode: pod}}", refusal: `spec.dns.mode: Unsupported value: "pod"`},
		{what: "DNS by no Service", spec: "{type: vpc, dns: {mode: service}}", refusal: "mode service needs the Service that answers"},
		{
			what: "DNS by a Service without a name", spec: "{type: vpc, dns: {mode: service, service: {namespace: a}}}",
			refusal: "spec.dns.service.name: Required value",
		},
		{what: "vpcID with a slash", spec: "{type: vpc, vpcID: a/b}", refusal: "spec.vpcID in body should match"},
		{what: "empty vpcID", spec: "{type: vpc, vpcID: ''}", refusal: "spec.vpcID in body should be at least 1 chars long"},
		{what: "tenant that is no label", spec: "{type: vpc, tenant: a b}", refusal: "spec.tenant in body should match"},
		{what: "name with a dot", name: "a.b", spec: "type: vpc", refusal: "the name of a Network must fit a label"},
		{what: "long name", name: strings.Repeat("a", 64), spec: "type: vpc", refusal: "the name of a Network must fit a label"},

		{what: "subnet without cidrs", spec: "{type: vpc, subnets: [{name: a}]}", refusal: "spec.subnets[0].cidrs: Required value"},
		{what: "subnet with no cidr", spec: subnet("cidrs: []"), refusal: "spec.subnets[0].cidrs in body should have at least 1 items"},
		{what: "subnet without name", spec: "{type: vpc, subnets: [{cidrs: [10.0.0.0/24]}]}", refusal: "spec.subnets[0].name: Required value"},
		{
			what: "subnet name in capitals", spec: "{type: vpc, subnets: [{name: A, cidrs: [10.0.0.0/24]}]}",
			refusal: "spec.subnets[0].name in body should match",
		},
		{
			what: "two subnets of a name", spec: "{type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/24]}, {name: a, cidrs: [10.0.1.0/24]}]}",
			refusal: "spec.subnets[1]: Duplicate value",
		},
		{what: "65 subnets", spec: manySubnets(65), refusal: "spec.subnets: Too many: 65: must have at most 64 items"},
		{what: "64 subnets", spec: manySubnets(64)},

		{what: "cidr without a length", spec: subnet("cidrs: [10.0.0.0]"), refusal: notACIDR},
		{what: "cidr with leading zeros", spec: subnet("cidrs: [10.00.0.0/24]"), refusal: notACIDR},
		{what: "cidr of mapped IPv4", spec: subnet("cidrs: ['::ffff:10.0.0.0/120']"), refusal: notACIDR},
		{what: "cidr that is a word", spec: subnet("cidrs: [all]"), refusal: notACIDR},
		{what: "cidr with host bits", spec: subnet("cidrs: [10.0.0.1/24]"), refusal: notMasked},
		{what: "IPv4 /31", spec: subnet("cidrs: [10.0.0.0/31]"), refusal: badLength},
		{what: "IPv4 /7", spec: subnet("cidrs: [10.0.0.0/7]"), refusal: badLength},
		{what: "IPv4 /8", spec: subnet("cidrs: [10.0.0.0/8]")},
		{what: "IPv4 /30", spec: subnet("cidrs: [10.0.0.0/30]")},
		{what: "IPv6 /127", spec: subnet("cidrs: ['fd00::/127']"), refusal: badLength},
		{what: "IPv6 /63", spec: subnet("cidrs: ['fd00::/63']"), refusal: badLength},
		{what: "IPv6 /64", spec: subnet("cidrs: ['fd00::/64']")},
		{what: "multicast", spec: subnet("cidrs: [224.0.0.0/8]"), refusal: notHosts},
		{what: "loopback", spec: subnet("cidrs: [127.0.0.0/8]"), refusal: notHosts},
		{what: "link-local", spec: subnet("cidrs: [169.254.0.0/16]"), refusal: notHosts},
		{what: "link-local IPv6", spec: subnet("cidrs: ['fe80::/64']"), refusal: notHosts},
		{what: "unspecified", spec: subnet("cidrs: [0.0.0.0/8]"), refusal: notHosts},
		{what: "two IPv4 cidrs", spec: subnet("cidrs: [10.0.0.0/24, 10.0.1.0/24]"), refusal: "two ranges must be one IPv4 and one IPv6"},
		{what: "a cidr twice", spec: subnet("cidrs: [10.0.0.0/24, 10.0.0.0/24]"), refusal: "Duplicate value"},
		{what: "three cidrs", spec: subnet("cidrs: [10.0.0.0/24, 'fd00::/64', 'fd01::/64']"), refusal: "Too many: 3"},

		{what: "gateway that is a word", spec: subnet("cidrs: [10.0.0.0/24], gatewayIPs: [router]"), refusal: notAnIP},
		{what: "gateway with a length", spec: subnet("cidrs: [10.0.0.0/24], gatewayIPs: [10.0.0.1/24]"), refusal: notAnIP},
		{
			what: "gateway outside", spec: subnet("cidrs: [10.0.0.0/24], gatewayIPs: [10.0.1.1]"),
			refusal: "a gateway must lie in a range of its subnet",
		},
		{
			what: "two IPv4 gateways", spec: subnet("cidrs: [10.0.0.0/24], gatewayIPs: [10.0.0.1, 10.0.0.2]"),
			refusal: "two gateways must be one IPv4 and one IPv6",
		},

		{what: "excluded word", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [some]"), refusal: notARange},
		{what: "excluded half a range", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [10.0.0.1-]"), refusal: notARange},
		{what: "excluded short range", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [10.0.0.1-9]"), refusal: notARange},
		{what: "excluded range of two families", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: ['10.0.0.1-fd00::1']"), refusal: notARange},
		{what: "excluded range of three", spec: subnet("cidrs: [10.0.0.0/24], excludeIPs: [10.0.0.1-10.0.0.2-10.0.0.3]"), refusal: notARange},
	} {
		t.Run(sample.what, func(t *testing.T) {
			if sample.name == "" {
				sample.name = "sample"
			}
			_, err := networks.Create(t.Context(), network(t, sample.name, sample.spec), metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})
			expect(t, err, sample.refusal)
		})
	}
}

func manySubnets(n int) string {
	var b strings.Builder
	b.WriteString("type: vpc\nsubnets:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: s%d, cidrs: [10.%d.0.0/16]}\n", i, i)
	}
	return b.String()
}

func testNetworkUpdates(t *testing.T, s *apiserver.Server) {
	const (
		before = "{type: vpc, vpcID: vpc-1, tenant: acme, subnets: [{name: a, cidrs: [10.0.0.0/24]}, {name: b, cidrs: " +
			"[10.0.1.0/24], gatewayIPs: [10.0.1.9]}]}"
		fixed = "of a subnet cannot change"
	)
	networks := networksOf(t, s)
	for _, sample := range []struct {
		what, from, to, refusal string
	}{
		{what: "nothing", from: before, to: before},
		{what: "type", from: "type: vpc", to: "type: flat", refusal: "type cannot change"},
		{what: "set vpcID", from: "type: vpc", to: "{type: vpc, vpcID: vpc-1}"},
		{
			what: "change vpcID", from: before, to: strings.Replace(before, "vpc-1",
				"vpc-2", 1), refusal: "spec.vpcID: Invalid value: vpcID cannot change once it is set",
		},
		{what: "remove vpcID", from: before, to: strings.Replace(before, "vpcID: vpc-1, ", "", 1), refusal: "vpcID cannot change once it is set"},
		{what: "change tenant", from: before, to: strings.Replace(before, "acme", "other", 1)},
		{what: "add a subnet", from: "type: vpc", to: before},
		{what: "remove all subnets", from: before, to: "{type: vpc, vpcID: vpc-1, tenant: acme}"},
		{
			what: "swap subnets", from: "{type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/24]}, {name: b, cidrs: [10.0.1.0/24]}]}",
			to: "{type: vpc, subnets: [{name: b, cidrs: [10.0.1.0/24]}, {name: a, cidrs: [10.0.0.0/24]}]}",
		},
		{what: "change a cidr", from: before, to: strings.Replace(before, "10.0.0.0/24", "10.0.0.0/23", 1), refusal: "cidrs " + fixed},
		{what: "add a family", from: subnet("cidrs: [10.0.0.0/24]"), to: subnet("cidrs: [10.0.0.0/24, 'fd00::/64']"), refusal: "cidrs " + fixed},
		{what: "swap families", from: subnet("cidrs: [10.0.0.0/24, 'fd00::/64']"), to: subnet("cidrs: ['fd00::/64', 10.0.0.0/24]")},
		{what: "change a gateway", from: before, to: strings.Replace(before, "10.0.1.9", "10.0.1.8", 1), refusal: "gatewayIPs " + fixed},
		{
			what: "set a gateway", from: subnet("cidrs: [10.0.0.0/24]"), to: subnet("cidrs: [10.0.0.0/24], gatewayIPs: [10.0.0.9]"),
			refusal: "gatewayIPs " + fixed,
		},
		{what: "remove a gateway", from: before, to: strings.Replace(before, ", gatewayIPs: [10.0.1.9]", "", 1), refusal: "gatewayIPs " + fixed},
		{what: "exclude addresses", from: subnet("cidrs: [10.0.0.0/24]"), to: subnet("cidrs: [10.0.0.0/24], excludeIPs: [10.0.0.9]")},
	} {
		t.Run(sample.what, func(t *testing.T) {
			object, err := networks.Create(t.Context(), network(t, "sample", sample.from), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := networks.Delete(t.Context(), "sample", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}()
			object.Object["spec"] = network(t, "sample", sample.to).Object["spec"]
			_, err = networks.Update(t.Context(), object, metav1.UpdateOptions{})
			expect(t, err, sample.refusal)
		})
	}
}
