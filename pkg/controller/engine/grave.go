package engine

import (
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// rests is how long a load balancer's UUID is not used again after its row was deleted.
const rests = 10 * time.Second

// graves remember load balancers that were deleted a short while ago.
//
// A row's UUID follows from what it stands for, so that what comes back has its old UUID. ovn-northd 25.03.0 ends (it reads
// memory that it has freed) when it finds a Load_Balancer deleted and inserted under the same UUID in one look at the database; it
// looks as often as it has time. With 1,000 Networks it was seen to be busy for 3 s.
type graves map[nb.Ref]time.Time

// bury notes what units have deleted.
func (g graves) bury(units []plan.Unit, now time.Time) {
	for ref, since := range g {
		if now.Sub(since) >= rests {
			delete(g, ref)
		}
	}
	for _, u := range units {
		for _, ref := range u.Deletes {
			if ref.Table == nb.TableLoadBalancer {
				g[ref] = now
			}
		}
	}
}

// until is when a unit may be written; false if it may be now.
func (g graves) until(u plan.Unit, now time.Time) (time.Time, bool) {
	var due time.Time
	for _, row := range u.Inserts {
		if since, buried := g[nb.RefOf(row)]; buried && since.Add(rests).After(due) {
			due = since.Add(rests)
		}
	}
	return due, due.After(now)
}
