package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys are the labels and annotations of Group that mean something on one kind of object, sorted. The policies in
// dist/admission/keys.yaml have the same lists.
type Keys struct {
	// Kind of the objects, in the plural.
	Kind                string
	Labels, Annotations []string
}

// PodKeys are those of pods.
func PodKeys() Keys {
	return Keys{"pods", []string{LabelNetwork}, []string{AnnotationAddresses, AnnotationAttachments, AnnotationNICs}}
}

// NamespaceKeys are those of namespaces.
func NamespaceKeys() Keys {
	return Keys{"namespaces", []string{LabelInfrastructure, LabelNetwork, LabelTenant}, []string{AnnotationExternalRanges}}
}

// maxUnknown bounds what is said of one object, in keys.
const maxUnknown = 8

// Unknown says in plain words, of each key of Group that an object has and that means nothing there, which one may have been
// meant. It is sorted; nothing is said of most objects.
func (k Keys) Unknown(labels, annotations map[string]string) []string {
	var out []string
	say := func(what string, have map[string]string, known, others []string, other string) {
		var unknown []string
		for key := range maps.Keys(have) {
			if strings.HasPrefix(key, Group+"/") && !slices.Contains(known, key) {
				unknown = append(unknown, key)
			}
		}
		slices.Sort(unknown)
		for _, key := range unknown[:min(len(unknown), maxUnknown-len(out))] {
			text := fmt.Sprintf("%s %s means nothing on %s", what, key, k.Kind)
			near := Nearest(key, known)
			switch {
			case slices.Contains(others, key):
				text += fmt.Sprintf(": it is %s", other)
			case near != "":
				text += fmt.Sprintf("; did you mean %s?", near)
			}
			out = append(out, text)
		}
	}
	say("label", labels, k.Labels, k.Annotations, "an annotation")
	say("annotation", annotations, k.Annotations, k.Labels, "a label")
	return out
}
