package match_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/match"
)

// TestAnIndexFindsWhatMatches: whatever selectors came and went, an index gives those that match, and no others.
func TestAnIndexFindsWhatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, all := match.NewIndex(), map[string]match.Pods{}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			p := drawPods(t)
			if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
				x.Remove(p)
				delete(all, p.String())
				continue
			}
			x.Add(p)
			all[p.String()] = p
		}
		target := match.Target{
			Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"), NamespaceLabels: drawLabels(t), Labels: drawLabels(t),
		}
		want := map[string]match.Pods{}
		for text, p := range all {
			if p.Matches(target) {
				want[text] = p
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(x.Matching(target)))); diff != "" {
			t.Fatalf("-want +got for %+v:\n%s", target, diff)
		}
	})
}

// TestEqualTextsMeanTheSame: selectors with one text match the same labels, whatever the order of what they were made of.
func TestEqualTextsMeanTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawSelector(t, "a")
		b := match.Selector{Requirements: rapid.Permutation(a.Requirements).Draw(t, "order")}
		for i, r := range b.Requirements {
			b.Requirements[i].Values = rapid.Permutation(r.Values).Draw(t, "values")
		}
		if a.String() != b.String() {
			t.Fatalf("%q and %q are the same", a, b)
		}
		other, labels := drawSelector(t, "other"), drawLabels(t)
		if a.String() == other.String() && a.Matches(labels) != other.Matches(labels) {
			t.Fatalf("%+v and %+v are both %q", a, other, a)
		}
	})
}

func TestTexts(t *testing.T) {
	for want, s := range map[string]match.Selector{
		"":    {},
		`a=b`: {Requirements: []match.Requirement{{Key: "a", Op: match.In, Values: []string{"b", "b"}}}},
		`!d,a in (b,c),e`: {
			Requirements: []match.Requirement{
				{Key: "e", Op: match.Exists}, {Key: "d", Op: match.DoesNotExist}, {Key: "a", Op: match.In, Values: []string{"c", "b"}},
			},
		},
		`a notin ("",b)`:      {Requirements: []match.Requirement{{Key: "a", Op: match.NotIn, Values: []string{"b", ""}}}},
		`"a=b,!c"="d) pods("`: {Requirements: []match.Requirement{{Key: "a=b,!c", Op: match.In, Values: []string{"d) pods("}}}},
		`a in ()`:             {Requirements: []match.Requirement{{Key: "a", Op: match.In}}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

func drawPods(t *rapid.T) match.Pods {
	p := match.Pods{Labels: drawSelector(t, "labels")}
	if rapid.Bool().Draw(t, "of a namespace") {
		p.Namespace = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "its name")
	} else {
		p.Namespaces = drawSelector(t, "namespaces")
	}
	return p
}

func drawSelector(t *rapid.T, of string) match.Selector {
	var s match.Selector
	for range rapid.IntRange(0, 3).Draw(t, of) {
		r := match.Requirement{
			Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
			Op:  rapid.SampledFrom([]match.Operator{match.In, match.NotIn, match.Exists, match.DoesNotExist}).Draw(t, "operator"),
		}
		if r.Op == match.In || r.Op == match.NotIn {
			r.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "1", "2"}), 0, 3).Draw(t, "values")
		}
		s.Requirements = append(s.Requirements, r)
	}
	return s
}

func drawLabels(t *rapid.T) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "2"}), 0, 3).Draw(t, "target")
}
