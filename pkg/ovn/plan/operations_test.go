package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// TestMutations: what is written when elements join and leave sets.
func TestMutations(t *testing.T) {
	ref := nb.Ref{Table: nb.TableLoadBalancer, UUID: "11111111-1111-4111-8111-111111111111"}
	vips := func(key, value string) nb.Member {
		return nb.Member{Set: nb.Set{Row: ref, Column: nb.ColumnVips}, Value: nb.Pair(key, value)}
	}
	balancers := func(uuid string) nb.Member {
		return nb.Member{Set: nb.Set{Row: nb.Ref{Table: nb.TableLoadBalancerGroup, UUID: ref.UUID}, Column: nb.ColumnLoadBalancers}, Value: uuid}
	}
	for _, test := range []struct {
		what          string
		joins, leaves []nb.Member
		want          []string
	}{
		{
			what:  "a pair comes",
			joins: []nb.Member{vips("a", "1")},
			want:  []string{`[["vips","delete","a"],["vips","insert",["map",[["a","1"]]]]]`},
		},
		{
			what:   "a pair goes, and nothing else that somebody has put at its key",
			leaves: []nb.Member{vips("a", "1")},
			want:   []string{`[["vips","delete",["map",[["a","1"]]]]]`},
		},
		{
			what:  "a value changes: the old one is not written",
			joins: []nb.Member{vips("a", "2")}, leaves: []nb.Member{vips("a", "1")},
			want: []string{`[["vips","delete","a"],["vips","insert",["map",[["a","2"]]]]]`},
		},
		{
			what:  "one changes, another goes",
			joins: []nb.Member{vips("a", "2")}, leaves: []nb.Member{vips("a", "1"), vips("b", "1")},
			want: []string{
				`[["vips","delete",["map",[["b","1"]]]]]`,
				`[["vips","delete","a"],["vips","insert",["map",[["a","2"]]]]]`,
			},
		},
		{
			what:  "elements of a set are no pairs",
			joins: []nb.Member{balancers("22222222-2222-4222-8222-222222222222")}, leaves: []nb.Member{
				balancers("33333333-3333-4333-8333-333333333333"),
			},
			want: []string{
				`[["load_balancer","delete",["uuid","33333333-3333-4333-8333-333333333333"]]]`,
				`[["load_balancer","insert",["uuid","22222222-2222-4222-8222-222222222222"]]]`,
			},
		},
	} {
		// On one owner's account, or on that of two.
		for _, units := range [][]plan.Unit{{{Joins: test.joins, Leaves: test.leaves}}, {{Leaves: test.leaves}, {Joins: test.joins}}} {
			ops, err := plan.NewEncoder(ovsdb.DatabaseSchema{}).Operations(units)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, op := range ops {
				text, err := json.Marshal(op.Mutations)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(text))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s, in %d units (-want +got):\n%s", test.what, len(units), diff)
			}
		}
	}
}
