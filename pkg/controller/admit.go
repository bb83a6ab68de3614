package controller

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// choice is a pod's Network and who chose it.
type choice struct {
	network string
	by      chooser
}

// chooser is what names a pod's Network; its text is for the pod's owner.
type chooser string

// What can name a pod's Network. Nothing of them does: byDefault.
const (
	byHolding    chooser = "the pod's annotation " + model.AnnotationAttachments
	byAnnotation chooser = "the pod's annotation " + model.AnnotationNICs
	byLabel      chooser = "the pod's label " + model.LabelNetwork
	byNamespace  chooser = "the namespace's label " + model.LabelNetwork
	byDefault    chooser = "the controller's flag --default-network"
)

// choose finds the Network of a pod: where it already is, else its own choice, else its namespace's, else the
// default. It is fixed once the pod has addresses: what a label says later does not move it.
func (s *State) choose(p *pod, ns *model.Namespace) choice {
	a := p.held()
	switch {
	case a != nil:
		return choice{a.Network, byHolding}
	case p.NIC.Network != "":
		return choice{p.NIC.Network, byAnnotation}
	case p.Network != "":
		return choice{p.Network, byLabel}
	case ns != nil && ns.Network() != "":
		return choice{ns.Network(), byNamespace}
	}
	return choice{s.defaults.Network, byDefault}
}

// admits reports whether pods of a namespace may attach. The Network exists.
func (n *network) admits(ns model.Namespace) bool {
	if n.standard {
		return n.model.AdmitsAsDefault(ns)
	}
	return n.model.Admits(ns)
}

// grants reports whether there is a Network of that name for a namespace. One that is not known is granted none.
func (s *State) grants(name string, ns *model.Namespace) bool {
	n := s.networks[name]
	return n != nil && n.model != nil && ns != nil && n.admits(*ns)
}

// notFound says that a pod's Network is not there for its namespace. Whether it exists is not said: of Networks that do not
// admit his namespace a tenant learns nothing, and of a name that is near only one that he may use.
func (s *State) notFound(wish choice, ns *model.Namespace) *model.Problem {
	refuse := func(format string, args ...any) *model.Problem {
		return &model.Problem{Reason: model.ReasonNetworkNotFound, Message: fmt.Sprintf(format, args...)}
	}
	switch n := s.networks[wish.network]; {
	case wish.by == byHolding:
		return refuse("Network %q, where the pod has its addresses, does not exist", wish.network)
	case wish.by == byDefault && (n == nil || n.model == nil):
		return refuse("the pod names no Network and the default one, %q, does not exist: label the pod or its namespace with %s", wish.network, model.LabelNetwork)
	case wish.by == byDefault:
		return refuse("the pod names no Network, and the default one, %q, is not for namespace %q: label the pod with %s, or have the namespace labelled", wish.network, ns.Name, model.LabelNetwork)
	}
	hint := ""
	if near := model.Nearest(wish.network, s.grantedTo(*ns)); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return refuse("Network %q, which %s names, does not exist or does not admit namespace %q%s", wish.network, wish.by, ns.Name, hint)
}

// grantedTo are the names of the Networks that admit a namespace, sorted. They are looked up once until something changes:
// a tenant may ask often, by pods that name what is not there.
func (s *State) grantedTo(ns model.Namespace) []string {
	names, known := s.admitting[ns.Name]
	if known {
		return names
	}
	for name, n := range s.networks {
		if n.model != nil && n.admits(ns) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	s.admitting[ns.Name] = names
	return names
}
