package central

import (
	"errors"
	"slices"
	"testing"
)

func TestPlanRebuild(t *testing.T) {
	t.Parallel()
	well := Database{ClusterID: clusterA, Members: []Member{member(1, server1), member(2, server2), member(3, server3)}}
	lost := Database{ClusterID: clusterA, Members: []Member{{Node: "a", Address: at(1), ServerID: server1, Lost: true}, member(2, "")}}
	held := Database{ClusterID: clusterB, Before: []string{clusterA}, Held: true, Members: []Member{member(1, server1)}}
	for name, c := range map[string]struct {
		nb, sb   Database
		discard  bool
		give     []Kind
		underway bool
		nothing  bool
	}{
		"nothing is lost":                    {nb: well, sb: well, nothing: true},
		"nothing was ever made":              {nothing: true},
		"both are lost":                      {nb: lost, sb: lost, give: []Kind{Southbound, Northbound}},
		"the northbound one takes the other": {nb: lost, sb: well, give: []Kind{Southbound, Northbound}},
		"the southbound one alone":           {nb: well, sb: lost, give: []Kind{Southbound}},
		"files are given up, too":            {nb: well, sb: well, discard: true, give: []Kind{Southbound, Northbound}},
		"cut short between the two":          {nb: lost, sb: lost.giveUp(Southbound), give: []Kind{Northbound}, underway: true},
		"cut short, the southbound is made":  {nb: lost, sb: held, give: []Kind{Northbound}, underway: true},
		"under way":                          {nb: lost.giveUp(Northbound), sb: lost.giveUp(Southbound), underway: true},
		"under way, said again with discard": {nb: well, sb: held, discard: true, underway: true},
	} {
		p, err := PlanRebuild(map[Kind]Database{Northbound: c.nb, Southbound: c.sb}, c.discard)
		if errors.Is(err, ErrNothingLost) != c.nothing || !slices.Equal(p.Give, c.give) || p.Underway != c.underway {
			t.Errorf("%s: gives up %v, under way %v, %v", name, p.Give, p.Underway, err)
		}
	}
	for _, kind := range []Kind{Northbound, Southbound} {
		to := lost.giveUp(kind)
		if err := to.validate(); err != nil || !to.Gone() || to.Held != (kind == Southbound) || !slices.Equal(to.Before, []string{clusterA}) {
			t.Errorf("%s is given up as %+v: %v", kind, to, err)
		}
	}
}
