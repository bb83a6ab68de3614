// Package nodes decides what nodes have: their blocks of the ranges of faces, and their addresses and ports in the default Network.
//
//	Take --> (pods reclaim blocks) --> Give --> (pods) --> Place --> ... --> WritePorts
package nodes
