package certs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAuthorityEnds: of an authority with several CAs the newest counts, and what cannot be read is said.
func TestAuthorityEnds(t *testing.T) {
	t.Parallel()
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	bundle := func(now time.Time) string {
		authority, err := NewAuthority(string(Central), now)
		if err != nil {
			t.Fatal(err)
		}
		return string(authority.Bundle())
	}
	old, newest := bundle(began), bundle(began.AddDate(4, 0, 0))
	one, err := AuthorityEnds(map[string]string{KeyCentral: old})
	if err != nil {
		t.Fatal(err)
	}
	for _, both := range []string{old + newest, newest + old} {
		got, err := AuthorityEnds(map[string]string{KeyCentral: both, KeyNode: old})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]time.Time{"atoll-ca-central": one["atoll-ca-central"].AddDate(4, 0, 0), "atoll-ca-node": one["atoll-ca-central"]}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < 48*time.Hour })); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := AuthorityEnds(map[string]string{KeyAgent: "no certificate"}); err == nil || !strings.Contains(err.Error(), "agent.crt") {
		t.Errorf("a bundle that is none: %v", err)
	}
}
