//go:build integration

package kube

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestServiceAddressesAreWritten: what is written on a Service is what the feed reads of it; it is written on that very
// Service only, and leaves its other annotations alone.
func TestServiceAddressesAreWritten(t *testing.T) {
	l := newLab(t)
	api := l.pods.Services("default")
	create := func() *corev1.Service {
		t.Helper()
		s, err := api.Create(l.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"mine": "kept", model.AnnotationServiceIPs: "10.9.0.5"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		must(t, err)
		return s
	}
	key := model.ServiceKey{Namespace: "default", Name: "web"}
	services := map[model.ServiceKey]*model.Service{}
	until := func(what string, met func(*model.Service) bool) *model.Service {
		t.Helper()
		for {
			maps.Copy(services, l.feed.Take().Services)
			if met(services[key]) {
				return services[key]
			}
			select {
			case <-l.feed.Ready():
			case <-l.ctx.Done():
				t.Fatalf("%s did not happen: %+v", what, services[key])
			}
		}
	}
	first := create()
	seen := until("a new Service", func(s *model.Service) bool { return s != nil })
	if len(seen.Wanted) != 1 || seen.Wanted[0] != netip.MustParseAddr("10.9.0.5") || !seen.Created.Equal(first.CreationTimestamp.Time) {
		t.Errorf("read %+v", seen)
	}
	given := model.ServiceAddresses{
		ServiceUID: string(first.UID), Network: "red", NetworkUID: "uid-red",
		Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.5"), netip.MustParseAddr("fd09::5")},
	}
	l.writer.WriteServiceAddresses(key, given.ServiceUID, &given)
	seen = until("its addresses", func(s *model.Service) bool { return s.Assigned != nil })
	if diff := cmp.Diff(&given, seen.Assigned, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	l.flush()
	stored, err := api.Get(l.ctx, "web", metav1.GetOptions{})
	must(t, err)
	if stored.Annotations["mine"] != "kept" || stored.Spec.ClusterIP != first.Spec.ClusterIP {
		t.Errorf("the Service is %+v", stored)
	}

	// Somebody takes it away: that is news.
	_, err = api.Patch(l.ctx, "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"atoll.dev/service-addresses":null}}}`), metav1.PatchOptions{})
	must(t, err)
	until("the removal", func(s *model.Service) bool { return s.Assigned == nil })
	l.writer.WriteServiceAddresses(key, given.ServiceUID, &given)
	until("its addresses again", func(s *model.Service) bool { return s.Assigned != nil })
	l.writer.WriteServiceAddresses(key, given.ServiceUID, nil)
	until("the end", func(s *model.Service) bool { return s.Assigned == nil })

	// A successor of the same name gets nothing of its predecessor's.
	must(t, api.Delete(l.ctx, "web", metav1.DeleteOptions{}))
	second := create()
	l.writer.WriteServiceAddresses(key, given.ServiceUID, &given)
	l.flush()
	stored, err = api.Get(l.ctx, "web", metav1.GetOptions{})
	must(t, err)
	if text, written := stored.Annotations[model.AnnotationServiceAddresses]; written || stored.UID != second.UID {
		t.Errorf("the successor has %q", text)
	}
}
