// Package install puts Atoll into a cluster, looks beforehand whether that can go well, brings it to another version, and takes it away.
//
//	dist (or a directory) --kustomize--> objects --values--> objects --stages--> API server --> programs, nodes
//
// What must stay true:
//
//   - Applied objects carry the label of one ApplySet, whose parent is ConfigMap atoll-system/atoll-install. Only objects with
//     this label are ever pruned, and of these neither definitions that have objects, nor Networks, Tenants and settings.
//   - A step that waits says for what, and ends with its context.
//   - Nothing is written before the checks were made, unless they were switched off.
package install
