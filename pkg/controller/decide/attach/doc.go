// Package attach decides where pods are: in which Network, with which addresses and faces, and whether they have their port.
//
//	Take --> Reclaim --> (nodes' blocks, Networks' layouts) --> Decide --> (what comes free) --> Decide --> WritePorts
//
// Decide judges each pod and settles the verdict: only there is anybody told, of what differs from the verdict before.
//
// A pod that has addresses holds them for as long as it lives, even while it may not use them.
package attach
