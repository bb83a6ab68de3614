package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// thing is an object, by its name, its UID and what it says; one that says nothing cannot be read.
func thing(name, uid, says string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Annotations: map[string]string{"says": says}},
	}
}

// TestEachIsToldOfEverything: of the first list, of what happens after it, and of what has gone while nobody watched.
func TestEachIsToldOfEverything(t *testing.T) {
	var told []string
	store := Kind[*metav1.PartialObjectMetadata, string, string]{
		Name: "things", Key: ByUID,
		Read: func(o *metav1.PartialObjectMetadata) *string {
			if o.Annotations["says"] == "" {
				return nil
			}
			return new(o.Name + ":" + o.Annotations["says"])
		},
		Sink: &Each[string, string]{
			Seen:   func(v *string) { told = append(told, *v) },
			Gone:   func(uid string) { told = append(told, "-"+uid) },
			Synced: func() { told = append(told, "synced") },
		},
	}.Source().Store
	transform := store.(cache.TransformingStore).Transformer()
	early := func(o *metav1.PartialObjectMetadata) any {
		read, err := transform(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, whole := read.(*metav1.PartialObjectMetadata); whole {
			t.Error("a whole object is held")
		}
		if name, err := cache.MetaNamespaceKeyFunc(read); err != nil || name != o.Name {
			t.Errorf("the reflector knows %s as %q, error %v", o.Name, name, err)
		}
		return read
	}
	for i, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return store.Replace([]any{early(thing("a", "1", "x"))}, "") }, "a:x synced"},
		{func() error { return store.Add(thing("b", "2", "y")) }, "b:y"},
		{func() error { return store.Update(thing("b", "2", "z")) }, "b:z"},
		{func() error { return store.Update(thing("b", "2", "")) }, ""},
		{func() error { return store.Delete(thing("never seen", "3", "x")) }, ""},
		{func() error { return store.Delete(thing("a", "1", "x")) }, "-1"},
		// Made anew under its name.
		{func() error { return store.Replace([]any{thing("b", "4", "z")}, "") }, "-2 b:z"},
		{func() error { return store.Replace([]any{thing("b", "4", "")}, "") }, ""},
		{func() error { return store.Replace(nil, "") }, "-4"},
	} {
		told = nil
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(told, " "); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	if err := store.Add(&unstructured.Unstructured{}); err == nil {
		t.Error("an object of another kind is taken")
	}
}

func TestWhatCannotBeReadIsToldOf(t *testing.T) {
	var failed []string
	read := Decoded(func(o *metav1.PartialObjectMetadata) *string { return &o.Name }, func(name string, err error) {
		failed = append(failed, fmt.Sprint(name, ": ", err != nil))
	})
	if got := read(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}); got == nil || *got != "a" {
		t.Errorf("got %v", got)
	}
	if got := read(&unstructured.Unstructured{Object: map[string]any{"metadata": "nonsense"}}); got != nil ||
		!slices.Equal(failed, []string{": true"}) {
		t.Errorf("got %v, told %v", got, failed)
	}
}
