// Package visible has the rule by which a Network sees Services. Who compiles load balancers and who answers for names both go by it.
//
// In go a Network, a Service's namespace and where its endpoints are; out comes whether pods in the Network know the Service.
package visible

import (
	"cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Home is the Network that a namespace's pods and Services belong to, unless pods choose otherwise: the one that its label names,
// else its tenant's default one, which has the tenant's name, else the cluster's default one, standard. Nothing is looked up: a
// home that is not there, or does not admit the namespace, leaves it without a Network.
func Home(ns model.Namespace, standard string) string { return cmp.Or(ns.Home(), standard) }

// Looker is a Network whose pods look for Services.
type Looker struct {
	*model.Network
	// Standard: it is the cluster's default one, where the infrastructure is that reaches everybody.
	Standard bool
}

// Admits reports whether pods of a namespace may attach.
func (l Looker) Admits(ns model.Namespace) bool {
	if l.Standard {
		return l.AdmitsAsDefault(ns)
	}
	return l.Network.Admits(ns)
}

// Service is what of a Service decides who sees it.
type Service struct {
	// Namespace is its own; nil while it is not known.
	Namespace *model.Namespace
	// Home is the Network whose load balancers the namespace's own Network meets.
	Home string
	// Behind: it has endpoints in the Network that looks.
	Behind bool
}

// Sees reports whether the Network's pods know a Service: those of the namespaces at home there, and those that have endpoints there, of
// namespaces that it admits. The default Network knows all.
func (l Looker) Sees(s Service) bool {
	switch {
	case s.Namespace == nil:
		return false
	case l.Standard:
		return true
	}
	return (s.Home == l.Name || s.Behind) && l.Admits(*s.Namespace)
}
