// Package netdev makes, checks and removes the Linux interfaces of pods: a veth pair per interface, one end
// in the pod's network namespace, the other in the node's, where Open vSwitch takes it.
//
// In flows a Spec (values only); out flows the state of the kernel. What must stay true:
//
//   - The node's end is named after the container and its interface (HostName), so that it is found again
//     without any record, and carries an alias (Owner) before it is up, which proves that it is ours.
//   - Nothing without that proof is ever removed.
//   - A thread that entered a pod's namespace never returns to other work unless it came back (package ns).
package netdev
