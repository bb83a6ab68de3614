// Package match decides whether labels match a selector. It is the pure counterpart of Kubernetes' label
// selectors: package intake makes Selectors from them.
package match

import "slices"

// Operator is how a Requirement compares.
type Operator uint8

// The operators, with the meaning that metav1.LabelSelector gives them.
const (
	In Operator = iota
	NotIn
	Exists
	DoesNotExist
)

// Requirement is one comparison of a Selector.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string
}

// Selector matches labels that meet all its requirements; with none it matches everything.
type Selector struct {
	Requirements []Requirement
}

// Matches reports whether labels meet every requirement.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.Requirements {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

func (r Requirement) matches(labels map[string]string) bool {
	value, present := labels[r.Key]
	switch r.Op {
	case In:
		return present && slices.Contains(r.Values, value)
	case NotIn:
		return !present || !slices.Contains(r.Values, value)
	case Exists:
		return present
	case DoesNotExist:
		return !present
	}
	return false
}
