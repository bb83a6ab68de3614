// Package call is how the agent tells the node's DNS program of portholes: requests over a socket in the node's file system, that only
// root can reach.
//
//	PUT    /portholes/ID    answer there; done when pods are answered
//	DELETE /portholes/ID    it goes: let go of its network namespace
//	POST   /look            look at all portholes
//	GET    /readyz          have names been read, and portholes been looked at
//
// Nothing depends on it that must stay true: the program finds portholes by itself, only later.
package call
