// Package status says how the cluster is, how each Network is, and layer by layer what a pod has and what is missing.
//
// It combines the objects that a snapshot holds with what the API server and both databases say at that moment. Each part that
// cannot be asked is named, and makes no other part fail.
package status
