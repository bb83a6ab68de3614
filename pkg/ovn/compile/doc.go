// Package compile turns what users asked for into rows of the OVN northbound database.
//
// In: model values. Out: nb.Facts, the layout of a Network (which subnets it serves, from which addresses
// pods may get theirs), and model.Problems for what cannot be done. All of it is pure: the same input gives
// the same output, byte for byte, and nothing about bad input is an error.
//
//	model.Network --Plan--> Layout --Network--> nb.Facts of the router, switches and their ports
//	model.Pod, model.Attachment, Layout --Pod--> nb.Facts of the pod's switch port
//
// What must stay true: facts of one owner never depend on another pod or another Network, so one event
// compiles one owner; nothing joins two Networks.
package compile
