// Package nri lets a pod see its own addresses inside its containers, where Kubernetes put its faces.
//
//	container runtime ──CreateContainer (arguments, environment, mounts)──▶ Plugin
//	                                                                         │ Lookup: the pod's faces and own addresses
//	/var/lib/kubelet/pods/<uid>/etc-hosts ──read──────────────────────────▶  │
//	                                                                         ▼
//	container runtime ◀──adjustment: arguments, environment, /etc/hosts── HostsDir: <dir>/<uid>/etc-hosts
//
// The Plugin speaks the Node Resource Interface (NRI) of containerd and CRI-O: it connects to the runtime's socket and
// is asked before a container is made.
//
// What must stay true:
//
//   - A container is made whatever happens here: no request is answered with an error, and nothing is waited for.
//   - Only whole addresses that are faces of that very pod are replaced, each by the own address of its family. What
//     the tenant writes changes nothing but that tenant's container.
//   - A file that containers write to is bounded, and shared with no other pod.
//   - Nothing is kept in memory that a restart would need.
package nri
