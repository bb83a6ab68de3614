package oracle

import "fmt"

// Direction is a direction as a pod sees it.
type Direction string

// The directions.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
)

// Why is what decided.
type Why string

// What can decide.
const (
	// ByRule: a rule, which Reason names.
	ByRule Why = "rule"
	// Isolated: NetworkPolicies select the pod, and no rule of any of them allows the packet.
	Isolated Why = "isolated by default"
	// Nothing: no policy says anything about the packet.
	Nothing Why = "nothing selects it"
	// NotOurs: no pod is at this end, so that no policy can select it.
	NotOurs Why = "no pod of the Network"
	// OwnNode: the pod's node sent it.
	OwnNode Why = "the pod's own node"
	// Itself: the pod talks to itself.
	Itself Why = "the pod itself"
	// NotCompatible: it goes to a face that the Network does not reach, or comes from one that does not reach the Network.
	NotCompatible Why = "the Networks are not compatible"
	// Astray: the packet names a pod that is not in the packet's Network.
	Astray Why = "not in this Network"
)

// Reason is why a packet may pass one end, or may not.
type Reason struct {
	Allowed bool
	Why     Why
	// Policy is the kind and name of the policy that decided: that of the rule, or, where the pod is isolated, the first
	// one that isolates it.
	Policy string
	// Rule is the number of the rule within its direction, from 0; set if Why is ByRule.
	Rule int
}

// String is the reason for people.
func (r Reason) String() string {
	verb := "denied"
	if r.Allowed {
		verb = "allowed"
	}
	switch r.Why {
	case ByRule:
		return fmt.Sprintf("%s by rule %d of %s", verb, r.Rule, r.Policy)
	case Isolated:
		return fmt.Sprintf("%s: %s (%s)", verb, r.Why, r.Policy)
	}
	return fmt.Sprintf("%s: %s", verb, r.Why)
}

// Verdict is whether a packet arrives, and what each end says to it.
type Verdict struct {
	Allowed bool
	Egress  Reason
	Ingress Reason
}

// String is the verdict for people.
func (v Verdict) String() string {
	verb := "denied"
	if v.Allowed {
		verb = "allowed"
	}
	return fmt.Sprintf("%s (egress %s; ingress %s)", verb, v.Egress, v.Ingress)
}
