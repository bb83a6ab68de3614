// Package connect reaches a cluster with a user's own rights: the API server by a kubeconfig, and by way of it OVN's databases
// and the sockets of nodes.
//
// What must stay true: a Tunnel's socket can be opened by its user alone, and is removed when the tunnel ends.
package connect
