package gateways

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// GatewayAPI is the version of Gateway API that Atoll is written for; other patches of it are the same.
const GatewayAPI = "v1.6"

// gatewayFeatures are what Atoll serves of Gateway API, by the names that it has for them, sorted.
func gatewayFeatures() []string {
	return []string{"Gateway", "ReferenceGrant", "TCPRoute", "UDPRoute"}
}

// Report hands out the statuses that have changed.
func (s *Stage) Report() {
	for _, name := range pass.Sorted(s.reportedClasses) {
		if class := s.classes[name]; class != nil {
			s.Sink.WriteGatewayClassStatus(name, class.UID, classStatus(*class))
		}
	}
	clear(s.reportedClasses)
	for key := range s.reported {
		if g := s.gateways[key]; g != nil && g.ours {
			s.Sink.WriteGatewayStatus(key, g.UID, g.status())
		}
	}
	clear(s.reported)
	for key := range s.reportedRoutes {
		if r := s.routes[key]; r != nil {
			s.Sink.WriteRouteStatus(key, r.UID, r.status())
		}
	}
	clear(s.reportedRoutes)
}

func classStatus(c model.GatewayClass) model.GatewayClassStatus {
	accepted := model.Condition{
		Type: model.ConditionAccepted, Status: true, Reason: model.ReasonAccepted,
		Message: "Gateways of this class become load balancers inside their Networks",
	}
	if c.Parameters {
		accepted.Status, accepted.Reason = false, model.ReasonInvalidParameters
		accepted.Message = "parametersRef: Atoll has no parameters for Gateways; leave it out"
	}
	supported := model.Condition{
		Type: model.ConditionSupportedVersion, Status: true, Reason: model.ReasonSupportedVersion,
		Message: "the cluster has Gateway API " + c.Version,
	}
	if !strings.HasPrefix(c.Version, GatewayAPI+".") {
		supported.Status, supported.Reason = false, model.ReasonUnsupportedVersion
		supported.Message = fmt.Sprintf("the cluster has Gateway API %q; Atoll is tested with %s, and serves what it knows of others", c.Version,
			GatewayAPI)
	}
	return model.GatewayClassStatus{
		ObservedGeneration: c.Generation, Conditions: []model.Condition{accepted, supported}, Features: gatewayFeatures(),
	}
}

// status is what a Gateway reports of itself.
func (g *gateway) status() model.GatewayStatus {
	accepted := g.accepted()
	programmed := g.programmed(accepted)
	out := model.GatewayStatus{
		ObservedGeneration: g.Generation, Conditions: []model.Condition{accepted, programmed}, Addresses: slices.Clone(g.addresses),
	}
	for _, l := range g.listeners {
		out.Listeners = append(out.Listeners, l.status(programmed))
	}
	return out
}

// accepted says whether the Gateway makes sense.
func (g *gateway) accepted() model.Condition {
	c := model.Condition{Type: model.ConditionAccepted, Status: true, Reason: model.ReasonAccepted, Message: "the Gateway is valid"}
	if g.Parameters {
		c.Status, c.Reason, c.Message = false, model.ReasonInvalidParameters,
			"infrastructure.parametersRef: Atoll has no parameters for Gateways; leave it out"
		return c
	}
	for _, a := range g.Addresses {
		if a.Unsupported != "" {
			c.Status, c.Reason, c.Message = false, model.ReasonUnsupportedAddress, "addresses: "+a.Unsupported
			return c
		}
	}
	var bad []string
	for _, l := range g.listeners {
		if !l.serves() {
			bad = append(bad, l.Name)
		}
	}
	if len(bad) > 0 {
		c.Status, c.Reason = len(bad) < len(g.listeners), model.ReasonListenersNotValid
		c.Message = "these listeners are not served, and their conditions say why: " + strings.Join(bad, ", ")
	}
	if len(g.listeners) == 0 {
		c.Status, c.Reason, c.Message = false, model.ReasonListenersNotValid, "the Gateway has no listener"
	}
	return c
}

// programmed says whether the Gateway is in the database.
func (g *gateway) programmed(accepted model.Condition) model.Condition {
	c := model.Condition{
		Type: model.ConditionProgrammed, Status: true, Reason: model.ReasonProgrammed,
		Message: fmt.Sprintf("Network %q has the Gateway's load balancers", g.network),
	}
	fail := func(p model.Problem) model.Condition {
		c.Status, c.Reason, c.Message = false, p.Reason, p.Message
		return c
	}
	switch {
	case !accepted.Status:
		return fail(model.Problem{Reason: model.ReasonInvalid, Message: accepted.Message})
	case g.wanting != nil:
		return fail(*g.wanting)
	case g.unusable != nil:
		return fail(*g.unusable)
	case g.denied != nil:
		return fail(*g.denied)
	case !g.written || g.observed != g.Generation:
		return fail(model.Problemf(model.ReasonPending, "the Gateway's load balancers are not yet in OVN's northbound database"))
	}
	return c
}

// status is what a listener reports of itself.
func (l listener) status(programmed model.Condition) model.ListenerStatus {
	accepted := model.Condition{Type: model.ConditionAccepted, Status: true, Reason: model.ReasonAccepted, Message: "the listener is valid"}
	conflicted := model.Condition{Type: model.ConditionConflicted, Reason: model.ReasonNoConflicts, Message: "no other listener has its port"}
	resolved := model.Condition{
		Type: model.ConditionResolvedRefs, Status: true, Reason: model.ReasonResolvedRefs,
		Message: "every kind of routes that it allows is served",
	}
	switch {
	case l.conflict != "":
		conflicted.Status, conflicted.Reason = true, model.ReasonProtocolConflict
		conflicted.Message = fmt.Sprintf("listener %q has the same port", l.conflict)
		accepted.Status, accepted.Reason, accepted.Message = false, model.ReasonProtocolConflict, conflicted.Message
	case l.Protocol == "":
		accepted.Status, accepted.Reason = false, model.ReasonUnsupportedProtocol
		accepted.Message = fmt.Sprintf("protocol %q is not served; TCP and UDP are", l.Asked)
	case l.Port == 0:
		accepted.Status, accepted.Reason, accepted.Message = false, model.ReasonInvalid, "it has no port"
	}
	if l.Others {
		resolved.Status, resolved.Reason = false, model.ReasonInvalidRouteKinds
		resolved.Message = "allowedRoutes.kinds: it names kinds that are not served on this protocol; TCP takes TCPRoute and UDP takes UDPRoute"
	}
	own := model.Condition{Type: model.ConditionProgrammed, Status: programmed.Status, Reason: programmed.Reason, Message: programmed.Message}
	if !programmed.Status {
		own.Reason = model.ReasonPending
	}
	if !accepted.Status {
		own.Status, own.Reason, own.Message = false, model.ReasonInvalid, accepted.Message
	}
	return model.ListenerStatus{
		Name: l.Name, Kinds: slices.Clone(l.Kinds), Attached: l.attached,
		Conditions: []model.Condition{accepted, conflicted, own, resolved},
	}
}

// status is what a route's parents report of it.
func (r *route) status() model.RouteStatus {
	out := model.RouteStatus{ObservedGeneration: r.Generation}
	for _, at := range slices.Sorted(maps.Keys(r.parents)) {
		out.Parents = append(out.Parents, model.ParentStatus{Parent: r.Parents[at], Conditions: r.parents[at]})
	}
	return out
}
