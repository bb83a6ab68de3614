package sandbox

import "testing"

func TestReleaseAlias(t *testing.T) {
	for name, want := range map[string]string{
		"ghcr.io/atoll-net/atoll:v0.1.0":  "ghcr.io/atoll-net/atoll:sandbox",
		"ghcr.io/atoll-net/ovn:sandbox":   "",
		"atoll.dev/pause:sandbox":         "",
		"registry.example.com/atoll:v0.1": "",
	} {
		if got := releaseAlias(name); got != want {
			t.Errorf("%s is also called %q, want %q", name, got, want)
		}
	}
}
