// Package random draws small clusters, policies of every field, and packets.
//
// The less there is of everything, the more often something is hit: three namespaces, few labels, few ports, few
// addresses. Names of pods and addresses repeat from Network to Network on purpose.
//
// It draws by rapid, so that a case on which a test fails is made smaller by itself: what stands first in a list of
// choices is the simplest.
package random
