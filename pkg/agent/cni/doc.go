// Package cni carries a container runtime's request to the node agent and the answer back.
//
// In flows what the CNI specification gives a plugin (environment, network configuration); out flows one
// Request over a unix socket, and the agent's Response becomes the plugin's output:
//
//	runtime --exec--> atoll-cni (Plugin) --HTTP on a unix socket--> agent (Handler) --> Backend
//
// What must stay true: the plugin decides nothing and keeps nothing. When its process ends, the connection
// closes and the context of the agent's Backend call ends with it.
package cni
