// Package chassis runs a node's Open vSwitch and its ovn-controller: the three daemons that make a node a chassis of OVN.
//
//	conf.db ──▶ Database: ovsdb-server ◀── Switch: ovs-vswitchd ◀──OpenFlow── Controller: ovn-controller ──▶ southbound database
//	                         ▲                 │      ▲                           ▲
//	                         │ settings        ▼      │                           │ addresses
//	                     Controller       saved flows ┘                 ConfigMap atoll-ovn (Record)
//
// Each runs as the only child of a process of ours, which is a container's first process: it prepares what the daemon needs,
// starts it, starts it again when it dies, and ends it in the way that takes least from pods. What must stay true:
//
//   - A database file is never deleted. One that cannot be used is moved aside, and said.
//   - Two daemons of a kind never run on one node. The daemons' own locks (pidfiles, the database's lock) prevent it, and are not
//     overridden.
//   - Saved flows go back into a bridge only while no controller can be connected to it. Otherwise they could replace newer ones.
//   - Over a network there is TLS, and nothing else.
package chassis
