package visible

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func namespace(labels ...string) *model.Namespace {
	ns := &model.Namespace{Name: "team", Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		ns.Labels[labels[i]] = labels[i+1]
	}
	return ns
}

func TestWhoSeesWhom(t *testing.T) {
	red, own := model.Network{Name: "red", Type: model.VPC}, model.Network{Name: "red", Type: model.VPC, Tenant: "one"}
	chosen := model.Network{Name: "red", Type: model.VPC, Allowed: &match.Selector{}}
	standard := model.Network{Name: "default", Type: model.Flat}
	ofRed, ofBlue, ofNone := namespace(model.LabelNetwork, "red"), namespace(model.LabelNetwork, "blue"), namespace()
	ofOne := namespace(model.LabelNetwork, "red", model.LabelTenant, "one")
	homeOfOne, ofOneAlone := model.Network{Name: "one", Type: model.VPC, Tenant: "one"}, namespace(model.LabelTenant, "one")
	stranger := model.Network{Name: "one", Type: model.VPC}
	for _, test := range []struct {
		what   string
		looker Looker
		ns     *model.Namespace
		behind bool
		sees   bool
	}{
		{what: "a namespace at home", looker: Looker{Network: &red}, ns: ofRed, sees: true},
		{what: "a namespace of another Network", looker: Looker{Network: &red}, ns: ofBlue},
		{what: "one of another, with endpoints here that are not admitted", looker: Looker{Network: &red}, ns: ofBlue, behind: true},
		{what: "one of another, with endpoints here that are admitted", looker: Looker{Network: &chosen}, ns: ofBlue, behind: true, sees: true},
		{what: "one of another that would be admitted, without endpoints here", looker: Looker{Network: &chosen}, ns: ofBlue},
		{what: "a namespace that names a tenant's Network", looker: Looker{Network: &own}, ns: ofRed},
		{what: "the tenant's namespace", looker: Looker{Network: &own}, ns: ofOne, sees: true},
		{
			what: "a tenant's namespace that names none, in the tenant's default Network", looker: Looker{Network: &homeOfOne}, ns: ofOneAlone,
			sees: true,
		},
		{what: "the same, in another Network of the tenant", looker: Looker{Network: &own}, ns: ofOneAlone},
		{what: "the same, in somebody else's Network of the tenant's name", looker: Looker{Network: &stranger}, ns: ofOneAlone},
		{what: "a tenant's namespace that names another, in the default Network", looker: Looker{Network: &homeOfOne}, ns: ofOne},
		{what: "a namespace that names none", looker: Looker{Network: &red}, ns: ofNone},
		{what: "a namespace that is not known", looker: Looker{Network: &chosen}, behind: true},
		{what: "the default Network, whatever it is", looker: Looker{Network: &standard, Standard: true}, ns: ofRed, sees: true},
		{what: "the default Network, of a namespace that names none", looker: Looker{Network: &standard, Standard: true}, ns: ofNone, sees: true},
	} {
		s := Service{Namespace: test.ns, Behind: test.behind}
		if test.ns != nil {
			s.Home = Home(*test.ns, standard.Name)
		}
		if got := test.looker.Sees(s); got != test.sees {
			t.Errorf("%s: seen %t, want %t", test.what, got, test.sees)
		}
	}
}
