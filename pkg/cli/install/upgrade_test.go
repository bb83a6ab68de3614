package install

import (
	"errors"
	"testing"
)

func TestUpgradable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to   string
		told, fine bool
	}{
		{"v0.1.0", "v0.1.0", true, true},
		{"v0.1.0", "v0.1.7", true, true},
		{"v0.1.9", "v0.2.0", true, true},
		{"v0.2.0-rc.1", "v0.2.0", true, true},
		{"v0.1.0", "v0.3.0", true, false},
		{"v0.9.0", "v0.11.0", true, false},
		{"v0.2.0", "v0.1.9", true, false},
		{"v0.2.0", "v0.2.0-rc.1", true, false},
		{"v0.9.0", "v1.0.0", true, false},
		{"sandbox", "v0.1.0", false, true},
		{"v0.1.0", "sandbox", false, true},
		{"", "v0.1.0", false, true},
	} {
		told, err := Upgradable(test.from, test.to)
		if told != test.told || (err == nil) != test.fine || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s to %s: %t, %v", test.from, test.to, told, err)
		}
	}
}
