package southbound

import (
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

func TestDue(t *testing.T) {
	s := &Sweeper{GoneAfter: time.Minute, gone: map[string]time.Time{}}
	begin := time.Unix(1e9, 0)
	// Whose a chassis is, its name says, and not what its node writes of it.
	all := []ovsdb.Chassis{{Name: "n1", Hostname: "n3"}, {Name: "n2", Hostname: "n2"}, {Name: "n3", Hostname: "n1"}}
	three := map[string]bool{"n1": true, "n2": true, "n3": true}
	two := map[string]bool{"n1": true, "n2": true}
	for i, c := range []struct {
		after time.Duration
		nodes map[string]bool
		want  []string
	}{
		{0, two, nil},
		{59 * time.Second, two, nil},
		// It is back, and goes again: the time begins anew.
		{60 * time.Second, three, nil},
		{61 * time.Second, two, nil},
		{120 * time.Second, two, nil},
		{121 * time.Second, two, []string{"n3"}},
		// What could not be deleted is due with the next look.
		{122 * time.Second, two, []string{"n3"}},
	} {
		if got := s.due(all, c.nodes, begin.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}
