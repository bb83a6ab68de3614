package nb

import (
	"strconv"
	"testing"
)

// TestTunnelKey: the number follows from the UUID alone, is none that ovn-northd hands out by itself, and is hardly ever another's.
func TestTunnelKey(t *testing.T) {
	const rows = 1000
	whose := map[string]int{}
	for i := range rows {
		uuid := UUID(TableLogicalSwitch, strconv.Itoa(i))
		key := TunnelKey(uuid)
		if key != TunnelKey(uuid) {
			t.Fatalf("two numbers of %s", uuid)
		}
		if n, err := strconv.Atoi(key); err != nil || n < 65536 || n >= 16711680 {
			t.Errorf("%s: %q", uuid, key)
		}
		whose[key]++
	}
	// Of 1,000 rows 0.03 pairs are expected to meet. These do not.
	if len(whose) != rows {
		t.Errorf("%d numbers of %d rows", len(whose), rows)
	}
	// A number that changes would send packets astray while a cluster is upgraded.
	if got := TunnelKey("00000000-0000-0000-0000-000000000000"); got != "10050708" {
		t.Errorf("the number of a UUID is now %s", got)
	}
}
