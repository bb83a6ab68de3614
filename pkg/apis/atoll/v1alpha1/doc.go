// Package v1alpha1 holds the objects that users of Atoll write: version v1alpha1 of the API group atoll.dev.
//
// The types are the source of the CustomResourceDefinitions in dist/crds (`make generate`), and their comments
// are what `kubectl explain` shows. The schema refuses what one object alone shows to be wrong, for as long as
// the check is cheap; what needs other objects, or what an owner must be able to see and mend, is admitted and
// reported by the controller in the status. docs/api.md is the reference for users.
//
// +kubebuilder:object:generate=true
// +groupName=atoll.dev
package v1alpha1
