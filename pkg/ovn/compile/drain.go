package compile

import (
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// drainLoadBalancer gives the load balancer of the draining endpoints of another one, which is of UDP. key tells that one from
// all others; backends are the draining endpoints, by virtual address. No packet meets it: its switches' load balancers have
// translated the virtual addresses before the router. But nodes know of it, and when an endpoint goes out of it they forget who
// was led there. They do so when it goes out of the switches' load balancer, too, but then it may be too early: see package
// decide/drain.
//
// It is there whether anything is in it or not: ovn-northd ends when one goes and comes back too soon. (See the engine's
// graves.)
func drainLoadBalancer(l Layout, balancer *nb.LoadBalancer, key string, backends map[string]string) nb.Facts {
	lb := &nb.LoadBalancer{
		UUID:        nb.UUID(nb.TableLoadBalancer, key+"/"+string(model.UDP)+"/left"),
		Name:        balancer.Name + ":left",
		Protocol:    balancer.Protocol,
		Options:     map[string]string{"ct_flush": "true", "neighbor_responder": "none"},
		ExternalIDs: balancer.ExternalIDs,
	}
	facts := nb.Facts{Rows: []nb.Row{lb}, Members: []nb.Member{routerRef(l).Holds(nb.ColumnLoadBalancers, lb.UUID)}}
	for _, at := range slices.Sorted(maps.Keys(backends)) {
		if backends[at] != "" {
			facts.Members = append(facts.Members, nb.RefOf(lb).Holds(nb.ColumnVips, nb.Pair(at, backends[at])))
		}
	}
	return facts
}
