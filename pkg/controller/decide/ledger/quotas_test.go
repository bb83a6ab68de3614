package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestQuotas: the older are served, and whoever is judged otherwise than before is told of, and nobody else.
func TestQuotas(t *testing.T) {
	t.Parallel()
	stage := pass.NewOrder("cluster").Stage("cluster")
	c := cluster.New(cluster.Settings{}, stage)
	q := ledger.NewQuotas[model.ServiceKey]("services", c, func(t *model.Tenant) model.Quota { return t.Services }, stage)
	var turned []string
	q.Turned.Follow(stage, func(key model.ServiceKey) { turned = append(turned, key.Name) })
	key := func(name string) model.ServiceKey { return model.ServiceKey{Namespace: "shop", Name: name} }
	enter := func(name string, age int64) func() { return func() { q.Enter(key(name), "shop", time.Unix(age, 0)) } }
	leave := func(name string) func() { return func() { q.Leave(key(name)) } }
	bound := func(hard int64) func() {
		return func() {
			c.TakeTenants(map[string]*model.Tenant{"acme": {Name: "acme", Services: model.Quota{Bounded: hard >= 0, Hard: max(hard, 0)}}})
		}
	}
	home := func(tenant string) func() {
		return func() {
			c.TakeNamespaces(map[string]*model.Namespace{"shop": {Name: "shop", Labels: map[string]string{model.LabelTenant: tenant}}})
			for _, name := range []string{"a", "b", "c", "d"} {
				if age := int64(name[0]); q.Count("acme") > 0 || tenant == "acme" {
					q.Enter(key(name), "shop", time.Unix(age, 0))
				}
			}
		}
	}
	for _, step := range []struct {
		what           string
		do             func()
		turned, beyond string
		count          int
	}{
		{"nobody's", enter("c", 'c'), "", "", 0},
		{"a tenant without an object", home("acme"), "", "", 4},
		{"a quota", bound(2), "c d", "c d", 4},
		{"the same again", bound(2), "", "c d", 4},
		{"again the same object", enter("a", 'a'), "", "c d", 4},
		{"a lower one is told to those that were beyond the first", bound(1), "b c d", "b c d", 4},
		{"a higher one", bound(3), "b c d", "d", 4},
		{"an older one comes", enter("o", 1), "c", "c d", 5},
		{"a younger one comes", enter("y", 200), "", "c d y", 6},
		{"a younger one goes", leave("d"), "", "c y", 5},
		{"an older one goes", leave("a"), "c", "y", 4},
		{"it is made anew", enter("o", 300), "y", "o", 4},
		{"a quota of none", bound(0), "b c o y", "b c o y", 4},
		{"who stays beyond it goes", leave("b"), "", "c o y", 3},
		{"no quota", bound(-1), "c o y", "", 3},
		{"a quota again", bound(1), "o y", "o y", 3},
		{"the Tenant goes", func() { c.TakeTenants(map[string]*model.Tenant{"acme": nil}) }, "o y", "", 3},
		{"who was never there goes", leave("none"), "", "", 3},
	} {
		turned = nil
		step.do()
		slices.Sort(turned)
		if got := strings.Join(turned, " "); got != step.turned {
			t.Errorf("%s: told of %q, want %q", step.what, got, step.turned)
		}
		var beyond []string
		for _, name := range []string{"a", "b", "c", "d", "o", "y"} {
			if q.Beyond(key(name)) != nil {
				beyond = append(beyond, name)
			}
		}
		if got := strings.Join(beyond, " "); got != step.beyond || q.Count("acme") != step.count {
			t.Errorf("%s: of %d these are beyond the quota: %q, want %d: %q", step.what, q.Count("acme"), got, step.count, step.beyond)
		}
	}
	bound(2)()
	want := model.Problem{
		Reason:  model.ReasonQuotaExceeded,
		Message: `it is not served: Tenant "acme" may have 2 (spec.quotas.services), and the older come before the younger; delete an older one of their services, or ask for a higher quota`,
	}
	if diff := cmp.Diff(&want, q.Beyond(key("o"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A namespace that goes to somebody else takes its objects along, and those of one second come by their names.
	home("others")()
	bound(1)()
	c.TakeNamespaces(map[string]*model.Namespace{"shop": {Name: "shop", Labels: map[string]string{model.LabelTenant: "acme"}}})
	for i := range 3 {
		q.Enter(key(fmt.Sprint(3-i)), "shop", time.Unix(0, 0))
	}
	if q.Beyond(key("1")) != nil || q.Beyond(key("2")) == nil {
		t.Error("of one second the first by name is not the first")
	}
}
