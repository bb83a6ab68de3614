package check

import (
	"context"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// pause is the time between two looks.
const pause = 500 * time.Millisecond

// cluster is what the API server holds. A kube.Feed is one.
type cluster interface {
	Take() model.Changes
	Shown(name, uid string) (kube.Shown, bool)
}

// sources are what a check looks at.
type sources struct {
	defaults decide.Defaults
	cluster  cluster
	// objects are what the cluster has said so far.
	objects    model.Changes
	northbound func() (snapshot.Northbound, error)
	// bindings and interfaces are nil when nobody asked for them.
	bindings   func(context.Context) (map[string]ovsdb.Binding, error)
	interfaces func(context.Context) ([]vswitch.Port, error)
	// node is whose interfaces they are.
	node string
}

// look compares everything once. The API server and the databases are not looked at in the same moment, so that
// some of what it finds may be on its way.
func (s *sources) look(ctx context.Context) (Report, error) {
	s.objects.Merge(s.cluster.Take())
	s.objects.Settle()
	have, err := s.northbound()
	if err != nil {
		return Report{}, err
	}
	w := drift.Compile(s.defaults, s.objects, have.Rows)
	report := Report{
		Networks: len(s.objects.Networks), Pods: len(s.objects.Pods), Rows: len(w.Graph.Refs()), Refused: w.Refused(),
	}
	rows := w.CompareRows(have)
	report.Differences = slices.Concat(w.ComparePods(have), w.CompareNodes(), w.CompareServices(), w.CompareNetworks(s.cluster.Shown, rows),
		rows)
	if s.bindings != nil {
		bindings, err := s.bindings(ctx)
		if err != nil {
			return Report{}, err
		}
		report.Differences = append(report.Differences, w.CompareBindings(bindings)...)
	}
	if s.interfaces != nil {
		interfaces, err := s.interfaces(ctx)
		if err != nil {
			return Report{}, err
		}
		report.Differences = append(report.Differences, w.CompareInterfaces(s.node, interfaces)...)
	}
	slices.SortFunc(report.Differences, drift.Compare)
	return report, nil
}

// settle looks again and again until no difference of the first look is left, or for as long as limit says. What
// it returns are the differences that every look has found, each time the same: what is on its way changes or
// goes meanwhile, and what came up after the first look is for the next check.
func settle(ctx context.Context, limit time.Duration, look func(context.Context) (Report, error)) (Report, error) {
	deadline := time.Now().Add(limit)
	report, err := look(ctx)
	for err == nil && len(report.Differences) > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return report, context.Cause(ctx)
		case <-time.After(min(pause, left)):
		}
		var next Report
		if next, err = look(ctx); err == nil {
			next.Differences = inBoth(report.Differences, next.Differences)
			report = next
		}
	}
	return report, err
}

func inBoth(before, now []drift.Difference) []drift.Difference {
	was := make(map[drift.Difference]struct{}, len(before))
	for _, d := range before {
		was[d] = struct{}{}
	}
	return slices.DeleteFunc(now, func(d drift.Difference) bool {
		_, there := was[d]
		return !there
	})
}
