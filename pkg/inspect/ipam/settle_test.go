package ipam

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestIPAMSettles: what is on its way is not told; what lasts is. Without settling, what the first look finds is.
func TestIPAMSettles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settle time.Duration
		want   string
		looks  int
	}{{0, "ab", 1}, {5 * time.Second, "b", 11}} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			all, note, err := Settle(t.Context(), c.settle, func(context.Context) ([]api.IPAMCheck, string, error) {
				looks++
				one := api.IPAMCheck{Status: api.IPAMCheckStatus{Findings: []api.IPAMFinding{{Object: "a"}, {Object: "b"}}}}
				if looks > 1 {
					one.Status.Findings = []api.IPAMFinding{{Object: "b"}, {Object: "new"}}
				}
				return []api.IPAMCheck{one}, "note", nil
			})
			have := ""
			for _, f := range all[0].Status.Findings {
				have += f.Object
			}
			if err != nil || note != "note" || have != c.want || looks != c.looks {
				t.Errorf("after %s and %d looks it tells %q, want %q after %d: %v", c.settle, looks, have, c.want, c.looks, err)
			}
		})
	}
}
