//go:build integration

package decide_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/test/ovn"
)

// labelled selects pods of any namespace with the label app.
func labelled(app string) match.Pods {
	return match.Pods{Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}}
}

// webOnly lets the pods of a namespace receive what web sends to port 80, and nothing else.
func webOnly(ns string) model.Policy {
	peer := labelled("web")
	return model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: "web-only"}, UID: "uid-web-only-" + ns, Tier: model.TierTenant,
		Subject: match.Pods{Namespace: ns}, Isolates: [2]bool{true, false},
		Rules: [2][]model.Rule{{{
			Verdict: model.Allow, Peers: []model.Peer{{Pods: &peer}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 80, Last: 80}},
		}}},
	}
}

// groupPorts are the names of the ports in a port group, or why there is none.
func groupPorts(t *testing.T, c *ovn.Central, l compile.Layout, g compile.Group) string {
	t.Helper()
	out, err := c.NBCtl(t.Context(), "--bare", "--columns=ports", "find", "Port_Group", "name="+compile.GroupName(l, g))
	if err != nil {
		return err.Error()
	}
	var names []string
	for uuid := range strings.FieldsSeq(out) {
		names = append(names, strings.Trim(nbctl(t, c, "get", "Logical_Switch_Port", uuid, "name"), `"`))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestPoliciesBecomeGroupsAndACLs(t *testing.T) {
	central, c := ovn.Start(t, true), newCluster()
	nbctl(t, central, "init")
	nbctl(t, central, "set", "NB_Global", ".", "options:northd_probe_interval=7000")
	startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	options := func() string {
		return strings.Trim(nbctl(t, central, "--if-exists", "get", "NB_Global", ".", "options:use_ct_inv_match"), `"`) + " " +
			strings.Trim(nbctl(t, central, "get", "NB_Global", ".", "options:northd_probe_interval"), `"`)
	}
	eventually(t, "false 7000", options)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	// Networks have some of their own.
	acls := func() string {
		rows := strings.Fields(nbctl(t, central, "--bare", "--columns=_uuid", "list", "ACL"))
		slices.Sort(rows)
		return strings.Join(rows, " ")
	}
	without := acls()
	c.setPolicy(webOnly("red"))
	red := compile.Layout{Name: "red", UID: "uid-red"}
	isolated := compile.IsolatedGroup(model.PolicyIngress)
	members := func() string { return groupPorts(t, central, red, isolated) }
	eventually(t, "red/web-0 red/web-1 red/web-2", members)
	// Whoever deletes a group by hand: it comes back with all its ports and its ACL.
	nbctl(t, central, "destroy", "Port_Group", compile.GroupName(red, isolated))
	eventually(t, "red/web-0 red/web-1 red/web-2", members)
	eventually(t, "drop", func() string {
		return nbctl(t, central, "--bare", "--columns=action", "find", "ACL",
			"external_ids:atoll.dev/owner="+compile.GroupOwner(red, isolated).String())
	})
	nbctl(t, central, "clear", "Port_Group", compile.GroupName(red, isolated), "ports")
	eventually(t, "red/web-0 red/web-1 red/web-2", members)
	// And so does the option without which policies cut answers off, though nothing else is written.
	nbctl(t, central, "remove", "NB_Global", ".", "options", "use_ct_inv_match")
	eventually(t, "false 7000", options)
	// A policy that logs has the meter of logs.
	logs := webOnly("red")
	logs.Log = true
	c.setPolicy(logs)
	eventually(t, "red/web-only:Ingress:0 red/web-only:Ingress:isolation", func() string {
		names := strings.Fields(nbctl(t, central, "--bare", "--columns=name", "find", "ACL", "log=true", "meter=atoll_policy_log_red"))
		slices.Sort(names)
		return strings.Join(names, " ")
	})
	meters := func() string {
		return nbctl(t, central, "--bare", "--columns=name,unit,fair", "find", "Meter", "name=atoll_policy_log_red")
	}
	eventually(t, "atoll_policy_log_red\npktps\nfalse", meters)
	// Another policy of the namespace shares the meter, and it stays for as long as either logs.
	also := webOnly("red")
	also.Key.Name, also.UID, also.Log = "also", "uid-also", true
	c.setPolicy(also)
	eventually(t, "4", func() string {
		return strconv.Itoa(len(strings.Fields(nbctl(t, central, "--bare", "--columns=_uuid", "find", "ACL", "meter=atoll_policy_log_red"))))
	})
	c.deletePolicy(also.Key)
	eventually(t, "2", func() string {
		return strconv.Itoa(len(strings.Fields(nbctl(t, central, "--bare", "--columns=_uuid", "find", "ACL", "meter=atoll_policy_log_red"))))
	})
	eventually(t, "atoll_policy_log_red\npktps\nfalse", meters)
	c.deletePolicy(webOnly("red").Key)
	eventually(t, "", func() string { return nbctl(t, central, "--bare", "--columns=name", "list", "Port_Group") })
	eventually(t, without, acls)
	eventually(t, "", meters)
}
