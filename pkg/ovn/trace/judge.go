package trace

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Decision is what ACLs decide about a packet at one pod.
type Decision struct {
	// Allowed: by ACL, or because none decides.
	Allowed bool
	// ACL decides; nil when none does.
	ACL *nb.ACL
	// Also are further ACLs of the same tier and priority that the packet meets: OVN takes any one of them.
	Also []*nb.ACL
	// Passed are those that left the decision to a later tier.
	Passed []*nb.ACL
	// TurnedBack: what is judged after load balancing has not judged it, since it came back to its sender.
	TurnedBack bool
}

// Origin says whose the ACL is; false when it is none of ours, or none decides.
func (d Decision) Origin() (nb.Origin, bool) {
	if d.ACL == nil {
		return nb.Origin{}, false
	}
	return nb.OriginOf(d.ACL.Match)
}

// UndecidedError says that ACLs of one tier and priority disagree: OVN takes any one of them.
type UndecidedError struct{ A, B *nb.ACL }

// Error implements error.
func (e *UndecidedError) Error() string {
	return fmt.Sprintf("ACLs %s (%s) and %s (%s) of tier %d and priority %d disagree: OVN takes any one of them",
		e.A.UUID, e.A.Action, e.B.UUID, e.B.Action, e.A.Tier, e.A.Priority)
}

// Send judges what a port sends: first as it dials, then after load balancing. The two are the same where nothing balances.
// What comes back to its sender is turned back before the second. (ovn-northd(8), Ingress Table: Hairpin.)
func (db *Database) Send(port *nb.LogicalSwitchPort, dialled, balanced Packet) (Decision, error) {
	dialled.outport, balanced.outport = port.Name, port.Name
	balanced.translated = dialled.To != balanced.To || dialled.Port != balanced.Port
	first, err := db.judge(port, dialled, stageDialled)
	if err != nil || !first.Allowed {
		return first, err
	}
	if balanced.Loopback {
		first.TurnedBack = true
		return first, nil
	}
	second, err := db.judge(port, balanced, stageBalanced)
	if err == nil && second.ACL == nil {
		return first, nil
	}
	return second, err
}

// Receive judges what a port receives.
func (db *Database) Receive(port *nb.LogicalSwitchPort, p Packet) (Decision, error) {
	p.out = port.Name
	return db.judge(port, p, stageReceived)
}

// Directions and options of ACLs. (ovn-nb(5), ACL.)
const (
	fromPort       = "from-lport"
	toPort         = "to-lport"
	afterBalancing = "apply-after-lb"
)

// stage is where a switch asks ACLs.
type stage uint8

// The stages: as the packet is dialled, after load balancing, and where it is received.
const (
	stageDialled stage = iota
	stageBalanced
	stageReceived
)

// has reports whether an ACL is asked at a stage.
func (s stage) has(a *nb.ACL) bool {
	switch s {
	case stageDialled:
		return a.Direction == fromPort && a.Options[afterBalancing] != "true"
	case stageBalanced:
		return a.Direction == fromPort && a.Options[afterBalancing] == "true"
	case stageReceived:
	}
	return a.Direction == toPort
}

// side is how the match of an ACL that is asked at a stage begins, if it is about the ports of a group alone.
func (s stage) side() string {
	if s == stageReceived {
		return "outport == @"
	}
	return "inport == @"
}

// judge asks the ACLs of a port's switch, tier by tier, in each the higher priority first.
func (db *Database) judge(port *nb.LogicalSwitchPort, p Packet, at stage) (Decision, error) {
	p.chassis = db.chassisOf(port.Name)
	all := db.askedAt(port, at)
	out := Decision{Allowed: true}
	passed := -1
	for _, a := range all {
		if d := out.ACL; d != nil && (a.Tier != d.Tier || a.Priority != d.Priority) {
			return out, nil
		}
		if a.Tier == passed && a.Priority != out.Passed[len(out.Passed)-1].Priority {
			continue
		}
		meets, err := db.meets(a, p)
		switch {
		case err != nil:
			return Decision{}, err
		case !meets:
		case a.Tier == passed && a.Action != actionPass:
			return Decision{}, &UndecidedError{out.Passed[len(out.Passed)-1], a}
		case out.ACL != nil && allows(out.ACL) != allows(a), out.ACL != nil && a.Action == actionPass:
			return Decision{}, &UndecidedError{out.ACL, a}
		case a.Action == actionPass:
			out.Passed, passed = append(out.Passed, a), a.Tier
		case out.ACL != nil:
			out.Also = append(out.Also, a)
		default:
			out.ACL, out.Allowed = a, allows(a)
		}
	}
	return out, nil
}

const actionPass = "pass"

func allows(a *nb.ACL) bool {
	return a.Action == "allow" || a.Action == "allow-related" || a.Action == "allow-stateless"
}

// meets reports whether an ACL is about the packet.
func (db *Database) meets(a *nb.ACL, p Packet) (bool, error) {
	if err := db.spend(1); err != nil {
		return false, err
	}
	m, err := db.parse(a.Match)
	meets := false
	if err == nil {
		meets, err = m.holds(p, false)
	}
	if err != nil {
		return false, fmt.Errorf("read match of ACL %s (%s): %w", a.UUID, a.Match, err)
	}
	return meets, nil
}

// aclsAt are the ACLs that a switch asks about a port's packets: its own, and those of each port group with any port of the switch.
func (db *Database) aclsAt(port *nb.LogicalSwitchPort) []*nb.ACL {
	here := map[string]bool{}
	var out []*nb.ACL
	taken := map[string]bool{}
	take := func(ids []string) {
		for _, id := range ids {
			if a := db.acls[id]; a != nil && !taken[id] {
				taken[id] = true
				out = append(out, a)
			}
		}
	}
	if sw := db.switches[port.UUID]; sw != nil {
		for _, id := range sw.Ports {
			here[id] = true
		}
		take(sw.ACLs)
	}
	for _, g := range db.groups {
		if !slices.ContainsFunc(g.Ports, func(id string) bool { return here[id] }) {
			continue
		}
		take(g.ACLs)
	}
	return out
}
