package compile

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Logs of policies are bounded on each node, since ovn-controller writes them and a tenant decides what is logged.
//
// All that the policies of a namespace log shares one meter: however many rules its tenant writes, no more comes of them, and
// nobody else's lines are fewer. Policies of the cluster share a fair one: each ACL has the whole rate, since whoever writes
// them runs the cluster, and what a tenant sends must not hide what the others do.
const (
	logMeter = "atoll_policy_log"
	// logRate is in packets per second.
	logRate = 10
)

// LogsOf says with whom a policy shares the bound of its logs: its namespace, or nothing for those of the cluster.
func LogsOf(p model.Policy) string { return p.Key.Namespace }

func meterName(namespace string) string {
	if namespace == "" {
		return logMeter
	}
	return logMeter + "_" + namespace
}

// meterOf is the meter of what a policy logs; none when it does not.
func meterOf(p model.Policy) string {
	if !p.Log {
		return ""
	}
	return meterName(LogsOf(p))
}

// PolicyLogs gives the rows by which the logs of the policies are bounded that share them (LogsOf).
func PolicyLogs(namespace string) nb.Facts {
	owner, name, fair := nb.LogOwner(namespace), meterName(namespace), namespace == ""
	ids := func() map[string]string { return map[string]string{nb.KeyOwner: owner.String()} }
	band := &nb.MeterBand{UUID: nb.UUID(nb.TableMeterBand, name), Action: "drop", Rate: logRate, ExternalIDs: ids()}
	meter := &nb.Meter{
		UUID: nb.UUID(nb.TableMeter, name), Name: name, Unit: "pktps", Fair: &fair, Bands: []string{band.UUID}, ExternalIDs: ids(),
	}
	return nb.Facts{Rows: []nb.Row{meter, band}}
}

// logIsolation has what isolation drops of the policy's pods logged under the policy's name: without it the rows of isolation,
// which all policies share, drop the same and say nothing.
func (c *policyCompiler) logIsolation(d model.Direction) {
	c.direction = d
	c.place(nb.RuleIsolation)
	c.facts.Add(c.acl(c.group, d.String()+"/"+nb.RuleIsolation, d, verdictOf(model.Deny), TierTenant, PriorityIsolationLogged,
		c.side(c.group)+" && ip"))
}

// place says which of the policy's rules the ACLs that come now are of.
func (c *policyCompiler) place(rule string) {
	c.origin.Rule, c.name = rule, aclName(c.policy.Key, c.direction, rule)
}
