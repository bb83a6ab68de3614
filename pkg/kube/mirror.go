package kube

import (
	"reflect"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// mirrorWorkers is how many mirrors are written at once: a rollout changes those of its own Service, one after the other.
const mirrorWorkers = 8

// mirrors keeps the EndpointSlices of Mirrors.
type mirrors struct {
	upkeep[*discoveryv1.EndpointSlice, model.SliceKey, model.Mirror, *discoveryv1.EndpointSlice]

	mu sync.Mutex
	// byService are those that each Service has.
	byService map[model.ServiceKey]map[model.SliceKey]*model.Mirror
}

// WriteMirrors wants the mirrors of each of the Services to be these. The first call names all that are wanted: what
// the API server holds beside them is deleted.
func (w *Writer) WriteMirrors(of map[model.ServiceKey][]model.Mirror) {
	w.mirrors.want(w.mirrors.changed(of))
}

// changed are the mirrors that are wanted otherwise than before; nil for those that are not wanted any more.
func (m *mirrors) changed(of map[model.ServiceKey][]model.Mirror) map[model.SliceKey]*model.Mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, before := map[model.SliceKey]*model.Mirror{}, map[model.SliceKey]*model.Mirror{}
	for service := range of {
		for key, mirror := range m.byService[service] {
			out[key], before[key] = nil, mirror
		}
		delete(m.byService, service)
	}
	for service, list := range of {
		for i := range list {
			key := intake.MirrorKey(list[i])
			if out[key] = &list[i]; before[key] != nil && reflect.DeepEqual(*before[key], list[i]) {
				delete(out, key)
			}
			if m.byService[service] == nil {
				m.byService[service] = map[model.SliceKey]*model.Mirror{}
			}
			m.byService[service][key] = &list[i]
		}
	}
	return out
}

func sameMirror(a, b *discoveryv1.EndpointSlice) bool {
	return a.AddressType == b.AddressType &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		a.Annotations[model.AnnotationFaces] == b.Annotations[model.AnnotationFaces] &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}

func (w *Writer) newMirrors() *mirrors {
	m := &mirrors{byService: map[model.ServiceKey]map[model.SliceKey]*model.Mirror{}}
	m.client, m.resource = w.clients.discovery.RESTClient(), "endpointslices"
	m.object = func(_ model.SliceKey, mirror *model.Mirror) *discoveryv1.EndpointSlice { return intake.Mirror(*mirror) }
	m.hold = func(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		s.ManagedFields = nil
		return s
	}
	m.same = sameMirror
	// What a slice is of cannot be changed, nor can its owner's end be told from the end of a later one's.
	m.unlike = func(want, have *discoveryv1.EndpointSlice) bool { return want.AddressType != have.AddressType }
	m.start(&w.boxes, "mirror", mirrorWorkers, sliceKey, labels.Set{discoveryv1.LabelManagedBy: intake.ManagedBy}.String())
	return m
}
