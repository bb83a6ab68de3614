package config

import (
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

func with(change func(*v1alpha1.AtollConfigSpec)) v1alpha1.AtollConfigSpec {
	spec := Defaults()
	if change != nil {
		change(&spec)
	}
	return spec
}

// What the API server fills in is what the programs take where there is no object.
func TestDefaultsAreTheSchemas(t *testing.T) {
	text, err := os.ReadFile("../../../dist/crds/atoll.dev_atollconfigs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	filled := defaultOf(root["properties"].(map[string]any)["spec"].(map[string]any))
	body, err := json.Marshal(filled)
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.AtollConfigSpec
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if want := Defaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("the schema fills in\n%+v\nthe programs take\n%+v", got, want)
	}
	if _, err := Parse(Defaults()); err != nil {
		t.Error(err)
	}
}

// defaultOf is what a schema fills in: nothing inside of an object that is not there.
func defaultOf(schema map[string]any) any {
	value := schema["default"]
	fields, isObject := schema["properties"].(map[string]any)
	if !isObject || value == nil {
		return value
	}
	out := map[string]any{}
	for name, field := range fields {
		out[name] = defaultOf(field.(map[string]any))
	}
	return out
}

func TestParse(t *testing.T) {
	got, err := Parse(with(func(s *v1alpha1.AtollConfigSpec) {
		s.ServiceCIDRs = []v1alpha1.IPBlock{"10.96.0.0/12", "fd00::/108"}
		s.ClosedCIDRs = []v1alpha1.IPBlock{"192.0.2.1/32"}
		s.DNS.Addresses = []v1alpha1.IP{"10.96.0.10"}
		s.Flows = v1alpha1.ClusterFlows{Sampling: v1alpha1.FlowSamplingOn, Networks: []string{"red"}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/108")}; !reflect.DeepEqual(got.Services,
		want) {
		t.Errorf("Services: %v", got.Services)
	}
	if got.Inside != 65536 || got.MaxJoined != 32 || got.Outside != 16384 || got.DNS.Service.String() != "kube-system/kube-dns" ||
		got.DNS.Addresses[0].String() != "10.96.0.10" {
		t.Errorf("%+v", got)
	}
	if !got.Flows.On || !slices.Equal(got.Flows.Networks, []string{"red"}) {
		t.Errorf("%+v", got.Flows)
	}
	// What an earlier controller brought into force has no such setting.
	if before, err := Parse(with(func(s *v1alpha1.AtollConfigSpec) { s.Flows = v1alpha1.ClusterFlows{} })); err != nil || before.Flows.On {
		t.Errorf("%v, %+v", err, before.Flows)
	}
	for want, change := range map[string]func(*v1alpha1.AtollConfigSpec){
		"defaultSubnet: ":             func(s *v1alpha1.AtollConfigSpec) { s.DefaultSubnet = "10.0.0.0" },
		"defaultNetwork: it is empty": func(s *v1alpha1.AtollConfigSpec) { s.DefaultNetwork = "" },
		"closedCIDRs[1]: 10.0.0.1/24 has host bits": func(s *v1alpha1.AtollConfigSpec) {
			s.ClosedCIDRs = []v1alpha1.IPBlock{
				"10.1.0.0/24", "10.0.0.1/24",
			}
		},
		"faceCIDRs[1]: 100.80.0.0/16 is a second range": func(s *v1alpha1.AtollConfigSpec) {
			s.FaceCIDRs = []v1alpha1.CIDR{
				"100.64.0.0/16", "100.80.0.0/16",
			}
		},
		"gatewayCIDRs[1]: fd01::/64 is a second range": func(s *v1alpha1.AtollConfigSpec) {
			s.GatewayCIDRs = []v1alpha1.CIDR{
				"fd00::/64", "fd01::/64",
			}
		},
		"100.64.0.0/24 has not the 512 addresses": func(s *v1alpha1.AtollConfigSpec) {
			s.FaceCIDRs = []v1alpha1.CIDR{
				"100.64.0.0/24",
			}
		},
		"faceCIDRs: 100.64.0.0/10 overlaps 100.96.0.0/12 of": func(s *v1alpha1.AtollConfigSpec) {
			s.ServiceCIDRs = []v1alpha1.IPBlock{
				"100.96.0.0/12",
			}
		},
		"overlaps 100.64.0.0/16 of gatewayCIDRs": func(s *v1alpha1.AtollConfigSpec) {
			s.GatewayCIDRs = []v1alpha1.CIDR{
				"100.64.0.0/16",
			}
		},
		"overlaps 100.64.9.0/24 of nodeCIDRs": func(s *v1alpha1.AtollConfigSpec) {
			s.NodeCIDRs = []v1alpha1.IPBlock{
				"100.64.9.0/24",
			}
		},
		"dns.addresses[0]: ":                                  func(s *v1alpha1.AtollConfigSpec) { s.DNS.Addresses = []v1alpha1.IP{"kube-dns"} },
		"dns.service.name: it is empty":                       func(s *v1alpha1.AtollConfigSpec) { s.DNS.Service.Name = "" },
		"compatibility.maxJoined: 1 is not between 2 and 256": func(s *v1alpha1.AtollConfigSpec) { s.Compatibility.MaxJoined = 1 },
		"compatibility.maxJoined: 257 is not between":         func(s *v1alpha1.AtollConfigSpec) { s.Compatibility.MaxJoined = 257 },
		`flows.sampling: "Some" is neither On nor Off`:        func(s *v1alpha1.AtollConfigSpec) { s.Flows.Sampling = "Some" },
		"maxPodConnections.insideNetwork: -1 is not between":  func(s *v1alpha1.AtollConfigSpec) { s.MaxPodConnections.InsideNetwork = -1 },
	} {
		if _, err := Parse(with(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func object(generation int64, active *v1alpha1.AtollConfigSpec, change func(*v1alpha1.AtollConfigSpec)) *v1alpha1.AtollConfig {
	return &v1alpha1.AtollConfig{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConfigName, Generation: generation},
		Spec:       with(change), Status: v1alpha1.AtollConfigStatus{Active: active},
	}
}

func TestJudge(t *testing.T) {
	plain := Defaults()
	dns := func(s *v1alpha1.AtollConfigSpec) { s.DNS.Addresses = []v1alpha1.IP{"10.96.0.10"} }
	wrong := func(s *v1alpha1.AtollConfigSpec) { s.ServiceCIDRs = []v1alpha1.IPBlock{"100.96.0.0/12"} }
	faces := func(s *v1alpha1.AtollConfigSpec) { s.FaceCIDRs = []v1alpha1.CIDR{"100.64.0.0/16"} }
	turned := func(s *v1alpha1.AtollConfigSpec) { s.FaceCIDRs = []v1alpha1.CIDR{"fd64:a701::/64", "100.64.0.0/10"} }
	unreadable := with(func(s *v1alpha1.AtollConfigSpec) { s.DefaultSubnet = "" })
	for name, test := range map[string]struct {
		object  *v1alpha1.AtollConfig
		before  *v1alpha1.AtollConfigSpec
		active  func(*v1alpha1.AtollConfigSpec)
		nothing bool
		reason  string
		says    string
	}{
		"a first one": {object: object(1, nil, dns), active: dns, reason: "InForce"},
		"a first one that is wrong": {
			object: object(1, nil, wrong), nothing: true, reason: "NothingInForce", says: "no pod gets a network",
		},
		"another": {object: object(2, &plain, dns), before: &plain, active: dns, reason: "InForce"},
		"another that is wrong": {
			object: object(2, &plain, wrong), before: &plain, reason: "InvalidSettings", says: "stays in force",
		},
		"one that is wrong, after a restart": {object: object(2, &plain, wrong), reason: "InvalidSettings", says: "stays in force"},
		"other faces": {
			object: object(2, &plain, faces), before: &plain, reason: "InvalidSettings", says: "faceCIDRs: they cannot change from",
		},
		"the same faces in another order":         {object: object(2, &plain, turned), before: &plain, active: turned, reason: "InForce"},
		"other faces in an object of its own":     {object: object(1, nil, faces), before: &plain, reason: "InvalidSettings", says: "faceCIDRs"},
		"one after a status that nobody can read": {object: object(2, &unreadable, faces), active: faces, reason: "InForce"},
		"one that is wrong after such a status":   {object: object(2, &unreadable, wrong), nothing: true, reason: "NothingInForce"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(test.object, test.before)
			want := with(test.active)
			if (got.Active == nil) != test.nothing || got.Active != nil && !reflect.DeepEqual(*got.Active, want) {
				t.Errorf("in force: %+v", got.Active)
			}
			c := got.Conditions[0]
			if c.Reason != test.reason || (c.Status == metav1.ConditionTrue) != (test.reason == "InForce") ||
				!strings.Contains(c.Message, test.says) ||
				c.ObservedGeneration != test.object.Generation || got.ObservedGeneration != test.object.Generation {
				t.Errorf("condition: %+v", c)
			}
			// Looked at again, nothing is new.
			test.object.Status = got
			if again := Judge(test.object, got.Active); !reflect.DeepEqual(again, got) {
				t.Errorf("judged again: %+v", again)
			}
		})
	}
}

func TestInForce(t *testing.T) {
	plain, err := Parse(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	asked := with(func(s *v1alpha1.AtollConfigSpec) { s.DNS.Domain = "asked.example" })
	good := with(func(s *v1alpha1.AtollConfigSpec) { s.DNS.Domain = "good.example" })
	had := plain
	had.DNS.Domain = "had.example"
	wrong := func(s *v1alpha1.AtollConfigSpec) { s.DefaultSubnet = "" }
	for name, test := range map[string]struct {
		object *v1alpha1.AtollConfig
		before *Settings
		want   string
	}{
		"without an object, the defaults":                {want: "cluster.local"},
		"after an object that was deleted, what it said": {before: &had, want: "had.example"},
		"what the controller took": {
			object: &v1alpha1.AtollConfig{Spec: asked, Status: v1alpha1.AtollConfigStatus{Active: &good}}, before: &had, want: "good.example",
		},
		"before the controller looked, what was before": {
			object: &v1alpha1.AtollConfig{Spec: asked}, before: &had, want: "had.example",
		},
		"before the controller looked at the first, what is asked":     {object: &v1alpha1.AtollConfig{Spec: asked}, want: "asked.example"},
		"before the controller looked at the first, if it is readable": {object: object(1, nil, wrong), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := InForce(test.object, test.before); ok != (test.want != "") || ok && got.DNS.Domain != test.want {
				t.Errorf("%q %t, want %q", got.DNS.Domain, ok, test.want)
			}
		})
	}
}
