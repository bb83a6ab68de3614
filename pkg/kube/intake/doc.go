// Package intake turns Kubernetes objects into the values of package model, and the controller's reports back
// into the form that Kubernetes shows.
//
// What flows in was written by tenants, so nothing here trusts its size or its sense: every function is total,
// bounded and pure. What cannot be read never stops the rest; it becomes words for its owner (Subnet.Error,
// Pod.NICError), and where it would have admitted somebody it admits nobody.
package intake
