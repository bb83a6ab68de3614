// Package porthole makes the door between a Network and the node that its pods run on: one network namespace per
// Network with pods here, and the node's own side of all of them.
//
//	                    porthole: network namespace atoll-ID              the node's network namespace
//	          br-int    ┌─────────────────────────────────────┐
//	Network ── atoll-ID ┤ ovn0   maps own address <-> face   host0 ├ atollh-ID ─ route per face ─ kubelet, kube-proxy,
//	(router)            │        DNS, Kubernetes API, refusals     │                              the way out
//	                    └─────────────────────────────────────┘
//	default Network ── atoll-node0 ── atoll0: to all its pods, and to the faces of other nodes
//	(flat)          ── atoll-node1 ── atoll1: its pods' way out
//
// In flow a Spec per porthole and one Host (values only); out flows the state of the kernel: namespaces, links,
// addresses, routes, and one nftables table called atoll in each namespace. The ports of the bridge are not made here.
//
// What must stay true:
//
//   - A porthole lets nothing through that its Spec does not name. What a pod sends is judged packet by packet, not
//     connection by connection, so that a change counts at once.
//   - The source of what comes from a Network is one of its pods here, else it is dropped before anything looks at it.
//   - Nothing goes from one porthole to another but between the faces of a consumer and its provider, whatever the node's own
//     services translate: the node's table sees to that a second time, by interface.
//   - No address is learned on these links: neighbours are permanent, redirects and router advertisements are refused.
//   - A table is replaced as a whole, in one transaction: there is no moment without rules.
//   - Names follow from the Network's UID, so that everything of ours is found again without a record. Links carry an
//     alias and routes a protocol number of ours; what has neither is left alone.
package porthole
