// Package central keeps OVN's two databases as raft clusters whose members are nodes: one ovsdb-server per database and node.
//
//	record (ConfigMap) ─┐
//	files of this node ─┼─▶ Decide ─▶ step: write the record, make a draft, promote it, serve, wait, refuse
//	this node           ┘
//
//	while it serves: cluster/status ─▶ Ready; and the leader's keeper removes servers whose disk was lost
//
// What must stay true:
//
//   - A server starts only when the record names its cluster's id and its own id. So every server that ever took part is in the record.
//   - A database file is never overwritten and never deleted. Only a draft, which no server has opened, is moved aside.
//   - A node has at most one server in a cluster: one that has lost its disk joins anew only after the others have removed its old server.
//   - The raft port listens only behind the guard.
package central
