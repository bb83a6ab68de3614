package inprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// place is where an object is.
type place struct {
	resource        schema.GroupResource
	namespace, name string
}

// change is what happened to an object; its place in the store's history is its resourceVersion.
type change struct {
	place  place
	kind   string // of a watch: ADDED, MODIFIED, DELETED
	object *unstructured.Unstructured
}

// objects are what the API server has, and all that ever happened to them. An object in it is never changed, but replaced.
type objects struct {
	mu      sync.Mutex
	now     map[place]*unstructured.Unstructured
	history []change
	// news is closed and made anew with each change.
	news chan struct{}
}

func newObjects() *objects {
	return &objects{now: map[place]*unstructured.Unstructured{}, news: make(chan struct{})}
}

// put stores an object in place of the one that is there. The caller holds mu.
func (o *objects) put(p place, object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	kind := "ADDED"
	if before := o.now[p]; before != nil {
		kind = "MODIFIED"
		object.SetUID(before.GetUID())
		object.SetCreationTimestamp(before.GetCreationTimestamp())
	} else if object.GetUID() == "" {
		object.SetUID(types.UID(strings.Join([]string{"uid", p.resource.Resource, p.namespace, p.name}, "-")))
	}
	object.SetResourceVersion(fmt.Sprint(len(o.history) + 1))
	o.now[p] = object
	o.happened(change{p, kind, object})
	return object
}

func (o *objects) happened(c change) {
	o.history = append(o.history, c)
	close(o.news)
	o.news = make(chan struct{})
}

func (o *objects) create(p place, object *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now[p] != nil {
		return nil, apierrors.NewAlreadyExists(p.resource, p.name)
	}
	if dry {
		object.SetUID("of-nobody")
		return object, nil
	}
	return o.put(p, object), nil
}

func (o *objects) get(p place) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object := o.now[p]
	if object == nil {
		return nil, apierrors.NewNotFound(p.resource, p.name)
	}
	return object, nil
}

// update has an object changed, to what change makes of a copy of it.
func (o *objects) update(
	p place, dry bool, change func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.now[p]
	if have == nil {
		return nil, apierrors.NewNotFound(p.resource, p.name)
	}
	wanted, err := change(have.DeepCopy())
	if err != nil {
		return nil, err
	}
	if uid := wanted.GetUID(); uid != "" && uid != have.GetUID() {
		return nil, apierrors.NewConflict(p.resource, p.name, errors.New("it is another object"))
	}
	if dry {
		return wanted, nil
	}
	return o.put(p, wanted), nil
}

func (o *objects) remove(p place, dry bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	object := o.now[p]
	if object == nil {
		return apierrors.NewNotFound(p.resource, p.name)
	}
	if dry {
		return nil
	}
	delete(o.now, p)
	o.happened(change{p, "DELETED", object})
	return nil
}

// chosen are which objects a list or a watch is about.
type chosen struct {
	resource  schema.GroupResource
	namespace string
	fields    fields.Selector
	labels    labels.Selector
}

func (c chosen) has(p place, object *unstructured.Unstructured) bool {
	if p.resource != c.resource || c.namespace != "" && c.namespace != p.namespace || !c.labels.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	for _, r := range c.fields.Requirements() {
		value, found, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(r.Field, ".")...)
		// What an object does not have is the zero value of its kind.
		have, want := fmt.Sprint(value), r.Value
		if !found {
			have, want = "", strings.TrimPrefix(want, "false")
		}
		if (have == want) != (r.Operator != "!=") {
			return false
		}
	}
	return true
}

// list gives the objects, sorted by their names, and how much of the history they are of.
func (o *objects) list(c chosen) (items []*unstructured.Unstructured, version int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p, object := range o.now {
		if c.has(p, object) {
			items = append(items, object)
		}
	}
	slices.SortFunc(items, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return items, len(o.history)
}

// since gives what happened after a part of the history, and what is closed when there is more.
func (o *objects) since(version int) (changes []change, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.history[min(version, len(o.history)):]), o.news
}

// merged is an object after a merge patch (RFC 7386), which a server-side apply is taken for, too: nobody else owns anything here.
func merged(into map[string]any, patch map[string]any) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			below, _ := out[key].(map[string]any)
			out[key] = merged(below, value)
		default:
			out[key] = value
		}
	}
	return out
}

// patched is an object after a JSON patch (RFC 6902) of the operations that ours have: test, add and replace of a key.
func patched(object *unstructured.Unstructured, body []byte) (*unstructured.Unstructured, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, operation := range operations {
		path := strings.Split(strings.TrimPrefix(operation.Path, "/"), "/")
		switch operation.Op {
		case "test":
			if have, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...); have != operation.Value {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is %v", operation.Path, have))
			}
		case "add", "replace":
			if err := unstructured.SetNestedField(object.Object, operation.Value, path...); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		default:
			return nil, apierrors.NewBadRequest("there is no operation " + operation.Op + " here")
		}
	}
	return object, nil
}
