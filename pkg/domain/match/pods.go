package match

import "maps"

// Pods selects pods by their labels and those of their namespaces.
type Pods struct {
	// Namespace is the only namespace; empty means those that Namespaces selects.
	Namespace  string
	Namespaces Selector
	// Labels are those of the pods.
	Labels Selector
}

// Target is what Pods judges: a pod's labels and where it is.
type Target struct {
	Namespace string
	// NamespaceLabels are all labels of that namespace.
	NamespaceLabels map[string]string
	Labels          map[string]string
}

// Matches reports whether the selector selects the pod.
func (p Pods) Matches(t Target) bool {
	return p.Holds(t.Namespace, t.NamespaceLabels) && p.Labels.Matches(t.Labels)
}

// Holds reports whether pods of a namespace can be selected.
func (p Pods) Holds(namespace string, labels map[string]string) bool {
	if p.Namespace != "" {
		return p.Namespace == namespace
	}
	return p.Namespaces.Matches(labels)
}

// String is the selector as text: equal selectors have the same, others another.
func (p Pods) String() string {
	in := "namespaces(" + p.Namespaces.String() + ")"
	if p.Namespace != "" {
		in = "namespace " + word(p.Namespace)
	}
	return in + " pods(" + p.Labels.String() + ")"
}

// Index finds the selectors that may select a pod without looking at those that ask for labels that the pod does not
// have. Make one with NewIndex.
//
// Each selector hangs on one thing that a pod must have for it: a label with a value, a label, or the namespace. So a
// pod looks as many times as it and its namespace have labels, whatever the number of selectors.
type Index struct {
	hooks map[hook]map[string]Pods
}

// hook is what a pod must have. It is comparable.
type hook struct {
	// namespace is the pod's; empty when any will do.
	namespace string
	// whose label: the pod's or its namespace's.
	whose whose
	key   string
	// value is the label's; valued is false where any will do.
	value  string
	valued bool
}

type whose uint8

const (
	nobodys whose = iota
	pods
	namespaces
)

// NewIndex makes an empty index.
func NewIndex() *Index { return &Index{hooks: map[hook]map[string]Pods{}} }

// Add takes a selector in under its text.
func (x *Index) Add(p Pods) {
	text := p.String()
	for _, h := range hooksOf(p) {
		if x.hooks[h] == nil {
			x.hooks[h] = map[string]Pods{}
		}
		x.hooks[h][text] = p
	}
}

// Remove takes a selector out.
func (x *Index) Remove(p Pods) {
	text := p.String()
	for _, h := range hooksOf(p) {
		delete(x.hooks[h], text)
		if len(x.hooks[h]) == 0 {
			delete(x.hooks, h)
		}
	}
}

// Empty reports whether the index holds no selectors.
func (x *Index) Empty() bool { return len(x.hooks) == 0 }

// Matching are the selectors that select the pod, by their texts.
func (x *Index) Matching(t Target) map[string]Pods {
	out := map[string]Pods{}
	look := func(h hook) {
		for text, p := range x.hooks[h] {
			if p.Matches(t) {
				out[text] = p
			}
		}
	}
	for _, namespace := range []string{"", t.Namespace} {
		look(hook{namespace: namespace})
		for key, value := range t.Labels {
			look(hook{namespace: namespace, whose: pods, key: key})
			look(hook{namespace: namespace, whose: pods, key: key, value: value, valued: true})
		}
	}
	for key, value := range t.NamespaceLabels {
		look(hook{whose: namespaces, key: key})
		look(hook{whose: namespaces, key: key, value: value, valued: true})
	}
	return out
}

// hooksOf are the hooks that a selector hangs on: one, or one for each value of a label that may have several.
func hooksOf(p Pods) []hook {
	if found := labelHooks(p.Labels, hook{namespace: p.Namespace, whose: pods}); found != nil {
		return found
	}
	if p.Namespace != "" {
		return []hook{{namespace: p.Namespace}}
	}
	if found := labelHooks(p.Namespaces, hook{whose: namespaces}); found != nil {
		return found
	}
	return []hook{{}}
}

// labelHooks are the hooks of the first requirement that asks for a value, else of the first that asks for a label; nil
// when none does.
func labelHooks(s Selector, like hook) []hook {
	for _, r := range s.Requirements {
		if r.Op != In {
			continue
		}
		values := map[string]struct{}{}
		for _, v := range r.Values {
			values[v] = struct{}{}
		}
		out := []hook{}
		for v := range maps.Keys(values) {
			like.key, like.value, like.valued = r.Key, v, true
			out = append(out, like)
		}
		return out
	}
	for _, r := range s.Requirements {
		if r.Op == Exists {
			like.key = r.Key
			return []hook{like}
		}
	}
	return nil
}
