// Package installed holds end-to-end tests of a cluster in which everything was installed from dist, as a user does it: OVN's databases as
// a raft cluster of three in pods, a switch in a pod on every node, TLS between all of them. The other packages run OVN and Atoll as
// processes of the sandbox.
package installed
