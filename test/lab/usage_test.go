package lab

import "testing"

func TestIsOf(t *testing.T) {
	t.Parallel()
	parents := map[string]string{"7": "1", "20": "7", "300": "20", "8": "1", "30": "8", "1": "0"}
	family := map[string]bool{"7": true}
	for pid, want := range map[string]bool{"7": true, "20": true, "300": true, "1": false, "8": false, "30": false, "0": false} {
		if got := isOf(family, parents, pid); got != want {
			t.Errorf("process %s: got %v", pid, got)
		}
	}
}
