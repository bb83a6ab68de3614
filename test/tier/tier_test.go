package tier

import "testing"

func TestSeed(t *testing.T) {
	for said, want := range map[string]uint64{"": FixedSeed, "7": 7} {
		t.Setenv(SeedVariable, said)
		if got := Seed(t); got != want {
			t.Errorf("%q: got %d, want %d", said, got, want)
		}
	}
}

func TestAll(t *testing.T) {
	for said, want := range map[string]bool{"": false, "all": true} {
		t.Setenv(Variable, said)
		if got := All(); got != want {
			t.Errorf("%q: got %v, want %v", said, got, want)
		}
	}
}
