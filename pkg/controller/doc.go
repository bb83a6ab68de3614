// Package controller is Atoll's central process: it turns the cluster's objects into rows of the OVN
// northbound database and keeps them so. It only puts together what does it:
//
//	kube.Feed --Changes--> decide: which Network, which address --facts--> graph --work--> plan --> ovsdb.Session
//	                         |                                              ^                        |
//	kube.Writer <--annotations, status, Events                              +------- changed rows ---+
//
// Package southbound keeps what ovn-northd does not write in the southbound database. Package mirror has the faces of pods from
// EndpointSlices, and defaults the settings that the AtollConfig gives.
//
// Package decide decides; it knows neither API server nor database. Package engine moves: one goroutine owns what decides and
// the graph, has at most one transaction under way, and lets what comes meanwhile gather for the next one.
//
// What must stay true: nothing is written before every informer has delivered its first list; rows that are
// not ours are never touched; a pod that may not attach has no port, whatever was admitted.
package controller
