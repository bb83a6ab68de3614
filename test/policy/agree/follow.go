package agree

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// follow says in words what package trace, by which the command line names the policy that decides, says otherwise than the
// oracle about a packet: whether it passes, and at each pod by which rule. Nothing when they agree.
func follow(db *trace.Database, p cases.Packet, want oracle.Verdict) (string, error) {
	packet := trace.Packet{From: p.From.Address, To: p.To.Address, Protocol: tracedProtocol(p.Protocol), Port: p.Port}
	if from := db.Port(p.From.Pod); from != nil {
		dialled := packet
		if p.Dial.IsValid() {
			dialled.To, dialled.Port = p.Dial.Addr(), p.Dial.Port()
			endpoints, known := db.Balance(from, p.Dial, packet.Protocol)
			if at := netip.AddrPortFrom(p.To.Address, p.Port); !known || !slices.Contains(endpoints, at) {
				return fmt.Sprintf("the tracer leads %s to %v", p.Dial, endpoints), nil
			}
		}
		d, err := db.Send(from, dialled, packet)
		if err != nil {
			return "", err
		}
		if what := otherwise(d, want.Egress); what != "" || !d.Allowed {
			return what, nil
		}
	}
	to := db.Port(p.To.Pod)
	if to == nil {
		return "", nil
	}
	d, err := db.Receive(to, packet)
	if err != nil {
		return "", err
	}
	return otherwise(d, want.Ingress), nil
}

func tracedProtocol(p corev1.Protocol) model.Protocol {
	if p == oracle.ICMP {
		return trace.ICMP
	}
	return model.Protocol(strings.ToLower(string(p)))
}

// otherwise says what a decision has otherwise than the oracle's reason. Of several NetworkPolicies that allow a packet the
// oracle names one; OVN may take any.
func otherwise(d trace.Decision, want oracle.Reason) string {
	rules := []string{}
	if d.ACL != nil {
		for _, a := range append([]*nb.ACL{d.ACL}, d.Also...) {
			o, ours := nb.OriginOf(a.Match)
			if !ours {
				return "the tracer names an ACL of nobody: " + a.Match
			}
			rules = append(rules, o.Policy+" "+o.Rule)
		}
	}
	expected := "nothing"
	switch want.Why {
	case oracle.ByRule:
		// The oracle calls a policy by its kind and its name.
		expected = strings.Replace(want.Policy, " ", "/", 1) + " " + strconv.Itoa(want.Rule)
	case oracle.Isolated:
		expected = nb.Isolation + " "
	case oracle.NotCompatible:
		expected = nb.Peers + " "
	case oracle.OwnNode:
		expected = nb.OwnNode + " "
		if d.ACL == nil {
			// No policy selects the pod.
			expected = ""
			rules = append(rules, expected)
		}
	case oracle.Nothing, oracle.NotOurs:
		if d.Allowed && d.ACL == nil {
			return ""
		}
	case oracle.Itself, oracle.Astray:
		return ""
	}
	if d.Allowed != want.Allowed || !slices.Contains(rules, expected) {
		return fmt.Sprintf("the tracer says %t by %q, where %q is expected", d.Allowed, rules, expected)
	}
	return ""
}
