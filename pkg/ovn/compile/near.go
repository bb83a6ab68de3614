package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// A load balancer is the same on all nodes. Where clients of some nodes are led elsewhere than those of others, there is a pair
// for each place, and in its virtual address stands a variable in place of the port, or of the address by IPv6. Only the nodes of
// the place have a variable of that name. On the others the pair is no flow. (ovn-nb(5), Load_Balancer, options:template;
// Chassis_Template_Var.)
//
// The endpoints are not what varies: ovn-northd computes everything anew when a variable changes (25.03), and what changed is a
// pair here, which is incremental. What nodes have depends on which ports, and which addresses of IPv6, differ by place, and on
// nothing else: of IPv4 it is the same for all Services that have a port. OVN takes an address of IPv6 only as a variable, since
// it looks for a colon in the text.

// Place is where clients are: on a node; or, without one, on the nodes of a zone, or on those that are in none.
type Place struct{ Node, Zone string }

// Near are endpoints by the places of the clients that they are for. Nil: they are for all.
type Near map[Place][]netip.AddrPort

// NearByFamily are those of one port by each IP family.
type NearByFamily struct{ IPv4, IPv6 Near }

// Of are those of one IP family.
func (n NearByFamily) Of(v4 bool) Near {
	if v4 {
		return n.IPv4
	}
	return n.IPv6
}

// Variable is one that each node has so that its clients know which virtual addresses are for them. It is comparable.
type Variable struct {
	// ByZone: it tells nodes of one zone from those of others, and not each from all others.
	ByZone bool
	// Value is a port, or an address of IPv6.
	Value string
}

// name is the variable's on the nodes of a place.
func (v Variable) name(p Place) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.Node, p.Zone, strconv.FormatBool(v.ByZone), v.Value}, "\x00")))
	return "atoll_" + hex.EncodeToString(sum[:16])
}

// nearKey is a virtual address for clients in one place.
func nearKey(vip netip.AddrPort, p Place) string {
	v := variableOf(vip, p.Node == "")
	if vip.Addr().Is4() {
		return vip.Addr().String() + ":" + nb.TemplateMark + v.name(p)
	}
	return nb.TemplateMark + v.name(p) + ":" + strconv.Itoa(int(vip.Port()))
}

func variableOf(vip netip.AddrPort, byZone bool) Variable {
	if vip.Addr().Is4() {
		return Variable{ByZone: byZone, Value: strconv.Itoa(int(vip.Port()))}
	}
	return Variable{ByZone: byZone, Value: vip.Addr().String()}
}

// Variables are those that a Service needs on every node, each once, in order. They do not depend on its endpoints.
func Variables(s model.Service, known []Backends) []Variable {
	var out []Variable
	for _, b := range known {
		for _, v := range vipsOf(s, b) {
			if s.Local || s.Prefers == model.PrefersNode {
				out = append(out, variableOf(v.address, false))
			}
			if !s.Local && s.Prefers != model.PrefersNone {
				out = append(out, variableOf(v.address, true))
			}
		}
	}
	return SortVariables(out)
}

// SortVariables puts variables in order, each once.
func SortVariables(variables []Variable) []Variable {
	slices.SortFunc(variables, func(a, b Variable) int {
		return cmp.Or(strings.Compare(a.Value, b.Value), strings.Compare(strconv.FormatBool(a.ByZone), strconv.FormatBool(b.ByZone)))
	})
	return slices.Compact(variables)
}

// NodeVariables gives a node its variables.
func NodeVariables(node, zone string, variables []Variable) nb.Facts {
	row := &nb.ChassisVariables{
		UUID: nb.UUID(nb.TableChassisVariables, node), Chassis: node,
		ExternalIDs: map[string]string{nb.KeyOwner: nb.PlaceOwner(node).String()},
	}
	facts := nb.Facts{Rows: []nb.Row{row}}
	for _, v := range variables {
		p := Place{Node: node}
		if v.ByZone {
			p = Place{Zone: zone}
		}
		facts.Members = append(facts.Members, nb.RefOf(row).Holds(nb.ColumnVariables, nb.Pair(v.name(p), v.Value)))
	}
	return facts
}

// nearBalancers are the load balancers of what differs by place, one for each IP family of the virtual addresses of a protocol.
// They are there as long as the Service may have such addresses, whether it has any now: one that was deleted does not come back
// for ten seconds.
func nearBalancers(s model.Service, b Backends, protocol model.Protocol) nb.Facts {
	var facts nb.Facts
	for _, v4 := range []bool{true, false} {
		known, pairs := false, map[string]string{}
		for _, v := range vipsOf(s, b) {
			if s.Ports[v.port].Protocol != protocol || v.address.Addr().Is4() != v4 {
				continue
			}
			known = true
			for place, endpoints := range b.near(s, v) {
				pairs[nearKey(v.address, place)] = backendsOf(v4, endpoints)
			}
		}
		if !known {
			continue
		}
		family := "ipv4"
		if !v4 {
			family = "ipv6"
		}
		lb := loadBalancer(s, b.Layout, protocol)
		lb.UUID = nb.UUID(nb.TableLoadBalancer, b.Layout.UID+"/"+s.UID+"/"+string(protocol)+"/near/"+family)
		lb.Name += ":near:" + family
		lb.Options[nb.OptionTemplate], lb.Options["address-family"] = "true", family
		if b.Idle {
			clear(pairs)
		}
		facts.Rows = append(facts.Rows, lb)
		facts.Members = append(facts.Members, balanced(b.Layout, lb, pairs)...)
	}
	return facts
}

// near are the endpoints of a virtual address that differ by place; nil when they do not.
func (b Backends) near(s model.Service, v vip) Near {
	if v.port >= len(b.Near) {
		return nil
	}
	near := b.Near[v.port].Of(v.address.Addr().Is4())
	for place := range near {
		if _, waits := b.Waiting[variableOf(v.address, place.Node == "")]; waits && s.Local {
			return Near{}
		} else if waits {
			return nil
		}
	}
	return near
}

// VariableOf is the variable that a node has by a pair of a name and a value.
func VariableOf(node, pair string) Variable {
	name, value := nb.SplitPair(pair)
	v := Variable{Value: value}
	v.ByZone = v.name(Place{Node: node}) != name
	return v
}
