// Package agent is the program of a node: it gives pods their interfaces and keeps them.
//
//	API server ──watch──▶ pods of this node ─────────────┐
//	                                                      ▼
//	atoll-cni ──request──▶ cni.Handler ──▶ Agent: Add, Del, Check, GC, Status
//	                                          │                 ▲
//	                          netdev: veth ◀──┤                 │ woken by the monitor
//	                          vswitch: port ◀─┴──────▶ ovn-installed
//
//	start, minute, reconnect, bridge made ──▶ sweep ──▶ the same netdev and vswitch
//
//	API server ──watch──▶ world: Networks, nodes, the API's addresses ──┐
//	Add, Del, sweep ──▶ portholes: the pods with faces ─────────────────┴──▶ porthole: namespaces, rules, routes
//
// Its parts are packages below this one, which know what they are for and no more: attachment (what the controller decided about an
// interface), locks, world (what the cluster asks for), names (the DNS program), portholes, verdicts. This one binds them to requests, to
// the API server and to the container runtime.
//
// Packages cni, nri and apirelay speak with others on the node: the container runtime by its plugins, and pods that dial the
// Kubernetes API.
//
// What must stay true:
//
//   - Requests for one container, and the sweep of it, follow each other; different containers do not wait for
//     each other, and no lock is held over the work for another. But portholes are made one after the other.
//   - A pod is bound to the logical port that its name and UID give, never to one that an annotation names.
//     Which addresses it may use, and in which Network, is OVN's port security: the annotation only says what
//     to configure.
//   - Nothing is kept in memory or in files that a restart would need: the proof of what is ours is on the
//     links and in the database.
//   - The agent writes nothing to the API.
package agent
