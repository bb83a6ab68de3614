package porthole

import (
	"fmt"
	"maps"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// differences are what one table has otherwise than another. place says where it is, in words for the end of an object's name.
func (t *shownTable) differences(have *shownTable, name, place string) (out []api.NodeDifference) {
	object := func(format string, args ...any) string {
		return "nft " + name + " " + fmt.Sprintf(format, args...) + place
	}
	tell := func(kind api.NodeDifferenceKind, object, want, is string) {
		out = append(out, api.NodeDifference{Kind: kind, Object: object, Want: want, Have: is})
	}
	if !have.there {
		tell(api.NodeObjectMissing, "nft table "+name+place, "", "")
		return out
	}
	if t.flags != have.flags {
		// One that sleeps judges nothing.
		tell(api.NodeObjectDiffers, "nft table "+name+place, fmt.Sprintf("flags %x", t.flags), fmt.Sprintf("flags %x", have.flags))
	}
	for _, name := range sortedOf(t.chains, have.chains) {
		want, is := t.chains[name], have.chains[name]
		switch {
		case is == nil:
			tell(api.NodeObjectMissing, object("chain %s", name), "", "")
		case want == nil:
			tell(api.NodeObjectSurplus, object("chain %s", name), "", "")
		case want.base != is.base:
			tell(api.NodeObjectDiffers, object("chain %s", name), want.base, is.base)
		default:
			out = append(out, want.differences(is, object("chain %s", name))...)
		}
	}
	for _, name := range sortedOf(t.named(), have.named()) {
		want, is := t.sets[name], have.sets[name]
		switch {
		case is == nil:
			tell(api.NodeObjectMissing, object("set %s", name), "", "")
		case want == nil:
			tell(api.NodeObjectSurplus, object("set %s", name), "", "")
		case want.kind() != is.kind():
			tell(api.NodeObjectDiffers, object("set %s", name), "of another kind", "")
		default:
			missing, surplus := unlike(want.texts(), is.texts())
			for _, text := range missing {
				tell(api.NodeObjectMissing, object("set %s", name), text, "")
			}
			for _, text := range surplus {
				tell(api.NodeObjectSurplus, object("set %s", name), "", text)
			}
		}
	}
	return out
}

// differences are those between the rules of two chains.
func (c *shownChain) differences(have *shownChain, object string) (out []api.NodeDifference) {
	keys := func(rules []shownRule) (out []string) {
		for _, r := range rules {
			out = append(out, r.key)
		}
		return out
	}
	want, is := keys(c.rules), keys(have.rules)
	if slices.Equal(want, is) {
		return nil
	}
	missing, surplus := unlike(want, is)
	text := func(rules []shownRule, key string) string {
		i := slices.IndexFunc(rules, func(r shownRule) bool { return r.key == key })
		return fmt.Sprintf("rule %d of %d: %s", i+1, len(rules), rules[i].text)
	}
	for _, key := range missing {
		out = append(out, api.NodeDifference{Kind: api.NodeObjectMissing, Object: object, Want: text(c.rules, key)})
	}
	for _, key := range surplus {
		out = append(out, api.NodeDifference{Kind: api.NodeObjectSurplus, Object: object, Have: text(have.rules, key)})
	}
	if len(out) == 0 {
		out = append(out, api.NodeDifference{
			Kind: api.NodeObjectDiffers, Object: object, Want: "its rules in their order", Have: "the same in another order",
		})
	}
	return out
}

// named are the sets that have names of their own.
func (t *shownTable) named() map[string]*shownSet {
	out := maps.Clone(t.sets)
	maps.DeleteFunc(out, func(_ string, s *shownSet) bool { return s.Anonymous })
	return out
}

// sortedOf are the names in either, sorted.
func sortedOf[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]V{a, b} {
			for name := range m {
				if !yield(name) {
					return
				}
			}
		}
	}))
}

// unlike are those of each list that the other has not, or has less often, in their order.
func unlike(want, have []string) (missing, surplus []string) {
	without := func(of, other []string) (out []string) {
		left := map[string]int{}
		for _, text := range other {
			left[text]++
		}
		for _, text := range of {
			if left[text]--; left[text] < 0 {
				out = append(out, text)
			}
		}
		return out
	}
	return without(want, have), without(have, want)
}
