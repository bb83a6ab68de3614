package networks

import (
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Chooser is what names a Network; its text is for whoever asks why.
type Chooser string

// What can name a pod's Network. Nothing of them does: ByDefault.
const (
	ByHolding    Chooser = "the pod's annotation " + model.AnnotationAttachments
	ByAnnotation Chooser = "the pod's annotation " + model.AnnotationNICs
	ByLabel      Chooser = "the pod's label " + model.LabelNetwork
	ByNamespace  Chooser = "the namespace's label " + model.LabelNetwork
	ByTenant     Chooser = "the namespace's label " + model.LabelTenant
	ByDefault    Chooser = "the AtollConfig's defaultNetwork"
)

// ChooserOf is what names the home of a namespace. See visible.Home.
func ChooserOf(ns model.Namespace) Chooser {
	switch {
	case ns.Network() != "":
		return ByNamespace
	case ns.Tenant() != "":
		return ByTenant
	}
	return ByDefault
}

// NotFound returns the problem of a namespace that cannot use a Network. The message does not say whether the Network exists: a
// tenant learns nothing of Networks that do not admit the namespace. A similar name is suggested only if the namespace may use it.
func (s *Stage) NotFound(name string, by Chooser, ns *model.Namespace) *model.Problem {
	refuse := func(format string, args ...any) *model.Problem {
		return new(model.Problemf(model.ReasonNetworkNotFound, format, args...))
	}
	switch {
	case by == ByHolding:
		return refuse("Network %q, where the pod has its addresses, does not exist", name)
	case by == ByDefault && s.Get(name) == nil:
		return refuse("the pod names no Network and the default one, %q, does not exist: label the pod or its namespace with %s", name,
			model.LabelNetwork)
	case by == ByDefault:
		return refuse(
			"the pod names no Network, and the default one, %q, is not for namespace %q: label the pod with %s, or have the namespace labelled",
			name, ns.Name, model.LabelNetwork)
	}
	hint := ""
	if near := model.Nearest(name, s.grantedTo(*ns)); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return refuse("Network %q, which %s names, does not exist or does not admit namespace %q%s", name, by, ns.Name, hint)
}

// Refusal says why nothing of a namespace is served in a Network; nil when it is.
func (s *Stage) Refusal(ns model.Namespace, name string) *model.Problem {
	n := s.Get(name)
	switch {
	case n == nil, !n.Default && !n.Admits(ns):
		return s.NotFound(name, ChooserOf(ns), &ns)
	case !s.serves(n):
		return new(model.Problemf(model.ReasonNetworkInvalid, "Network %q is not served; its conditions say why", name))
	}
	return nil
}

// grantedTo are the names of the Networks that admit a namespace, sorted. They are looked up once until something changes:
// a tenant may ask often, by pods that name what is not there.
func (s *Stage) grantedTo(ns model.Namespace) []string {
	names, known := s.admitting[ns.Name]
	if known {
		return names
	}
	for name, n := range s.networks {
		if n.Model != nil && n.Admits(ns) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	s.admitting[ns.Name] = names
	return names
}
