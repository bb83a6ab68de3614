// Package connectivity tries every path that docs/ promise, on any cluster with Atoll, by real pods: atoll connectivity test.
//
// In flow options and the way to the API server; out flows a Report: each path with what was expected and what was seen.
//
//	look -> scene: nodes, settings, image      (cluster.go)
//	     -> objects: Networks, namespaces, pods  (objects.go)
//	     -> paths: questions and what is expected (paths.go), pure
//	     -> answers: pods are asked by exec      (cluster.go)
//	     -> results                              (judge.go), pure
//
// What must stay true: whatever it makes has its label and one of its names, and it removes nothing that has not both. Its pods
// run nothing but package probe, with the rights of the strictest Pod Security level. A path counts as open only when the very
// pod answered that should, and as shut when nobody did.
package connectivity
