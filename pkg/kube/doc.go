// Package kube is the edge to the Kubernetes API: what the cluster says comes in through Feed, what the
// controller decided goes out through Writer, and Lead says who may decide.
//
//	pods, namespaces, networks -> reflectors -> package intake -> Feed -> model.Changes
//	attachments, statuses, finalizers, problems -> Writer -> one PATCH each, Events
//
// What must stay true: nothing queues without bound (everything is gathered by key, and the newest state of a
// key replaces the one before); no caller ever waits for the API server; a write carries the UID of the object
// it was decided for, and never reaches another object that came later under the same name.
package kube
