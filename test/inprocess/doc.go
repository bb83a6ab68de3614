// Package inprocess is a small cluster that lives in a test's process, for tests of programs that ask one: nothing is installed,
// started or compiled for it, and it is there within a second. Inspection may have a process of its own (Options.Apart), which is
// the test's program once more.
//
//	kubeconfig of a user --HTTP--> server: objects, rights --/apis/inspect.atoll.dev--> pkg/inspect/inspectapi --> pkg/inspect
//	                                  ^                                                                   |    |
//	                                  | objects, statuses            rows                                 v    v
//	                                pkg/kube <--> pkg/controller --------------> libovsdb's databases in memory   agents
//
// What is Atoll's is the real thing: the controller decides about the objects and writes rows, and inspection answers from both.
// What is around it is small: an API server without validation, whose RBAC is a function (rights.go); databases without
// ovn-northd, so that ports are bound by hand; and agents that answer what is so by the objects (agents.go).
//
// What must stay true: whoever asks a real cluster is told the same, as far as the answers are about what is here. The
// integration tests of pkg/inspect/inspectapi ask one.
package inprocess
