// Package kube is the edge to the Kubernetes API: what the cluster says comes in through Feed, what the
// controller decided goes out through Writer, and Lead says who may decide.
//
//	pods, namespaces, networks -> reflectors -> package intake -> Feed -> model.Changes
//	attachments, statuses, finalizers, problems -> Writer -> one PATCH each, Events
//
// Packages below it speak with the API server for all programs:
//
//	follow    lists and watches in, values out
//	intake    objects into the values of package model, and reports back
//	config    the cluster's AtollConfig
//	certs     certificates: who gets which, and their renewal
//	access    who may do what, by the reviews of the API server
//	scrape    metrics, for those who may read them
//	shutout   the list of nodes that get nothing
//
// What must stay true: nothing queues without bound (everything is gathered by key, and the newest state of a
// key replaces the one before); no caller ever waits for the API server; a write carries the UID of the object
// it was decided for, and never reaches another object that came later under the same name.
package kube
