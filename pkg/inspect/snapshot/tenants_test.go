package snapshot

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestTenantsOfSomebody(t *testing.T) {
	t.Parallel()
	h := Held{Objects: model.NewChanges()}
	h.Objects.Tenants["acme"] = &model.Tenant{
		Admins: []model.TenantAdmin{{Kind: "User", Name: "jo"}, {Kind: "ServiceAccount", Namespace: "acme", Name: "robot"}},
	}
	h.Objects.Tenants["umbrella"] = &model.Tenant{Admins: []model.TenantAdmin{{Kind: "Group", Name: "jo"}}}
	for user, want := range map[string]string{"jo": "acme", "system:serviceaccount:acme:robot": "acme", "robot": "", "ann": "umbrella"} {
		var groups []string
		if user == "ann" {
			groups = []string{"jo"}
		}
		have := ""
		for name, is := range h.tenantsOf(user, groups) {
			if is {
				have += name
			}
		}
		if have != want {
			t.Errorf("%s is an admin of %q, want %q", user, have, want)
		}
	}
}
