package unixctl

import (
	"slices"
	"strings"
)

// The daemons that take commands.
const (
	Switch     = "ovs-vswitchd"
	Controller = "ovn-controller"
	Database   = "ovsdb-server"
)

// Daemons are all of them.
func Daemons() []string { return []string{Switch, Controller, Database} }

// everybodys are commands of each daemon that only read. (ovs-appctl(8), COMMON COMMANDS.)
var everybodys = []string{
	"list-commands", "version", "memory/show", "coverage/show", "coverage/read-counter", "vlog/list", "vlog/list-pattern",
}

// reading are the commands of each daemon that change nothing: neither it nor the datapath, and no setting. (ovs-vswitchd(8),
// ovn-controller(8), ovsdb-server(1).)
var reading = map[string][]string{
	Switch: {
		"bfd/show", "bond/list", "bond/show", "bridge/dump-flows", "cfm/show", "lacp/show", "lacp/show-stats", "rstp/show", "stp/show",
		"qos/show", "qos/show-types",
		"dpctl/dump-conntrack", "dpctl/dump-conntrack-exp", "dpctl/dump-dps", "dpctl/dump-flows", "dpctl/get-flow", "dpctl/show", "dpctl/version",
		"dpctl/list-commands",
		"dpctl/ct-bkts", "dpctl/ct-get-limits", "dpctl/ct-get-maxconns", "dpctl/ct-get-nconns",
		"dpctl/ct-get-sweep-interval", "dpctl/ct-get-tcp-seq-chk", "dpctl/ct-stats-show",
		"dpctl/ipf-get-status", "dpctl/cache-get-size", "dpif/dump-dps", "dpif/dump-flows", "dpif/show", "dpif/show-dp-features",
		"dpif-netdev/bond-show", "dpif-netdev/pmd-perf-show", "dpif-netdev/pmd-rxq-show",
		"dpif-netdev/pmd-stats-show", "dpif-netdev/subtable-lookup-info-get",
		"fdb/show", "fdb/stats-show", "mdb/show", "ofproto/list", "ofproto/list-tunnels", traceCommand, "odp-execute/action-impl-show",
		"ovs/route/lookup", "ovs/route/show", "tnl/arp/show", "tnl/neigh/show", "tnl/ports/show", "upcall/show",
	},
	Controller: {
		"connection-status", "ct-zone-list", "debug/dump-local-bindings", "debug/dump-local-template-vars",
		"debug/dump-peer-ports", "debug/dump-related-lports", "debug/status",
		"group-table-list", "inc-engine/show-stats", "lflow-cache/show-stats", "meter-table-list", "stopwatch/show",
	},
	Database: {
		"cluster/status", "ovsdb-server/get-active-ovsdb-server", "ovsdb-server/get-sync-exclude-tables",
		"ovsdb-server/list-dbs", "ovsdb-server/list-remotes", "ovsdb-server/sync-status",
	},
}

// traceCommand follows a packet through the flows. With a packet itself it does what the packet would do: it learns, and installs flows.
const traceCommand = "ofproto/trace"

// Reads reports whether a command of a daemon only reads, with these arguments. What is not known writes.
func Reads(daemon, command string, arguments []string) bool {
	if command == traceCommand && slices.ContainsFunc(arguments, hasEffects) {
		return false
	}
	return slices.Contains(everybodys, command) || slices.Contains(reading[daemon], command)
}

// hasEffects reports whether an argument of a trace has it do what the packet would do: an option that makes one, or a packet in
// hexadecimal digits, which is as long as an Ethernet header at least. The description of a flow is never made of such digits
// alone.
func hasEffects(argument string) bool {
	if strings.HasSuffix(argument, "-generate") {
		return true
	}
	const header = 14
	return strings.Trim(argument, "0123456789abcdefABCDEF \t\r\n.:") == "" && len(argument) >= 2*header
}
