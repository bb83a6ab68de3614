package model

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
)

func TestAdmits(t *testing.T) {
	everyone := &match.Selector{}
	marked := &match.Selector{Requirements: []match.Requirement{{Key: "x", Op: match.Exists}}}
	in := func(network string) map[string]string { return map[string]string{LabelNetwork: network} }
	of := func(tenant string) map[string]string { return map[string]string{LabelTenant: tenant} }
	both := func(network, tenant string) map[string]string {
		return map[string]string{LabelNetwork: network, LabelTenant: tenant}
	}
	for _, tt := range []struct {
		what    string
		network Network
		labels  map[string]string
		want    bool
	}{
		{"type alone, nothing said", Network{Name: "red"}, nil, false},
		{"type alone, the namespace's label names it", Network{Name: "red"}, in("red"), true},
		{"type alone, the label names another", Network{Name: "red"}, in("blue"), false},
		{"type alone, a tenant's namespace", Network{Name: "red"}, of("acme"), false},
		{"a tenant's, its namespace", Network{Name: "red", Tenant: "acme"}, of("acme"), true},
		{"a tenant's, its namespace in another Network", Network{Name: "red", Tenant: "acme"}, both("blue", "acme"), true},
		{"a tenant's, another's namespace that names it", Network{Name: "red", Tenant: "acme"}, both("red", "other"), false},
		{"a tenant's, nobody's namespace that names it", Network{Name: "red", Tenant: "acme"}, in("red"), false},
		{"for everyone", Network{Name: "red", Allowed: everyone}, nil, true},
		{"for everyone, though it is a tenant's", Network{Name: "red", Tenant: "acme", Allowed: everyone}, of("other"), true},
		{"selected", Network{Name: "red", Allowed: marked}, map[string]string{"x": ""}, true},
		{"not selected, though the label names it", Network{Name: "red", Allowed: marked}, in("red"), false},

		{"default, nothing said", Network{Name: "default"}, nil, true},
		{"default, the label names it", Network{Name: "default"}, in("default"), true},
		{"default, the label names another", Network{Name: "default"}, in("red"), false},
		{"default, a tenant's namespace", Network{Name: "default"}, of("acme"), false},
		{"default, a tenant's namespace that names it", Network{Name: "default"}, both("default", "acme"), true},
		{"default, a tenant's namespace in another", Network{Name: "default"}, both("red", "acme"), false},
		{"default for everyone, nothing said", Network{Name: "default", Allowed: everyone}, nil, true},
		{"default for everyone, the label names another", Network{Name: "default", Allowed: everyone}, in("red"), false},
		{"default for everyone, a tenant's namespace", Network{Name: "default", Allowed: everyone}, of("acme"), false},
		{"default for some, nothing said", Network{Name: "default", Allowed: marked}, nil, false},
		{"default for some, selected", Network{Name: "default", Allowed: marked}, map[string]string{"x": ""}, true},
		{
			"default for some, selected with another",
			Network{Name: "default", Allowed: marked},
			map[string]string{"x": "", LabelNetwork: "red"},
			false,
		},
		{"a tenant's default, its namespace, whose home is the tenant's own", Network{Name: "default", Tenant: "acme"}, of("acme"), false},
		{"a tenant's default, its namespace that names it", Network{Name: "default", Tenant: "acme"}, both("default", "acme"), true},
		{"a tenant's default, nobody's namespace", Network{Name: "default", Tenant: "acme"}, nil, false},
		{"a tenant's default, its namespace in another", Network{Name: "default", Tenant: "acme"}, both("red", "acme"), false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			admits := tt.network.Admits
			if tt.network.Name == "default" {
				admits = tt.network.AdmitsAsDefault
			}
			if got := admits(Namespace{Name: "team", Labels: tt.labels}); got != tt.want {
				t.Errorf("admits the namespace: %v, want %v", got, tt.want)
			}
		})
	}
}
