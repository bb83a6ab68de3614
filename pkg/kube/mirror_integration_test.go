//go:build integration

package kube

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// TestMirrors: what is wanted is written once, comes back when somebody changes or deletes it, changes with what is
// wanted, and goes; a controller that starts again writes nothing that is there.
func TestMirrors(t *testing.T) {
	l := newLab(t)
	admin, err := discoveryclient.NewForConfig(l.server.RESTConfig())
	must(t, err)
	api := admin.EndpointSlices("default")
	port := int32(80)
	of, err := api.Create(l.ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"100.64.0.1"}}},
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
	}, metav1.CreateOptions{})
	must(t, err)
	service := model.ServiceKey{Namespace: "default", Name: "web"}
	mirror := func(network string, addresses ...string) model.Mirror {
		m := model.Mirror{
			Network: network, Source: model.SliceKey{Namespace: "default", Name: "web-x"}, SourceUID: string(of.UID), Service: "web",
			Ports: []model.SlicePort{{Protocol: model.TCP, Port: 80}},
		}
		for _, a := range addresses {
			m.Endpoints = append(m.Endpoints, model.Endpoint{Address: netip.MustParseAddr(a), Ready: true, Serving: true, Hostname: "h", Node: "n"})
		}
		return m
	}
	want := func(w *Writer, list ...model.Mirror) {
		w.WriteMirrors(map[model.ServiceKey][]model.Mirror{service: list})
	}
	// until looks at a mirror each time it changes, from now on.
	until := func(what string, m model.Mirror, met func(*discoveryv1.EndpointSlice) bool) *discoveryv1.EndpointSlice {
		t.Helper()
		name := intake.MirrorKey(m).Name
		for {
			s, err := api.Get(l.ctx, name, metav1.GetOptions{})
			if err != nil {
				s = nil
			}
			if met(s) {
				return s
			}
			if l.ctx.Err() != nil {
				t.Fatalf("%s did not happen: %+v", what, s)
			}
		}
	}
	has := func(addresses ...string) func(*discoveryv1.EndpointSlice) bool {
		return func(s *discoveryv1.EndpointSlice) bool {
			if s == nil || len(s.Endpoints) != len(addresses) {
				return false
			}
			for i, a := range addresses {
				if s.Endpoints[i].Addresses[0] != a {
					return false
				}
			}
			return true
		}
	}
	gone := func(s *discoveryv1.EndpointSlice) bool { return s == nil }

	writer, stop := l.anotherWriter()
	red, blue := mirror("red", "10.0.0.5"), mirror("blue", "10.0.0.5", "10.0.0.6")
	want(writer, red, blue)
	until("the first mirror", red, has("10.0.0.5"))
	first := until("the second mirror", blue, has("10.0.0.5", "10.0.0.6"))
	must(t, writer.Flush(l.ctx))

	// Somebody changes it, and somebody deletes it.
	first.Endpoints = first.Endpoints[:1]
	first.Labels["mine"] = "too"
	_, err = api.Update(l.ctx, first, metav1.UpdateOptions{})
	must(t, err)
	until("the mirror's return to what it was", blue, func(s *discoveryv1.EndpointSlice) bool {
		return has("10.0.0.5", "10.0.0.6")(s) && s.Labels["mine"] == ""
	})
	must(t, api.Delete(l.ctx, intake.MirrorKey(red).Name, metav1.DeleteOptions{}))
	until("the mirror's return", red, has("10.0.0.5"))

	// A pod moves.
	blue = mirror("blue", "10.0.0.7")
	want(writer, red, blue)
	// Its Network is reached by another, and somebody writes other faces.
	blue.Faces = map[netip.Addr]netip.Addr{netip.MustParseAddr("10.0.0.7"): netip.MustParseAddr("100.64.0.7")}
	faces := func(want string) func(*discoveryv1.EndpointSlice) bool {
		return func(s *discoveryv1.EndpointSlice) bool {
			return s != nil && s.Annotations[model.AnnotationFaces] == want
		}
	}
	want(writer, red, blue)
	second := until("the faces", blue, faces(`{"10.0.0.7":"100.64.0.7"}`))
	second.Annotations[model.AnnotationFaces] = `{"10.0.0.7":"100.64.0.1"}`
	_, err = api.Update(l.ctx, second, metav1.UpdateOptions{})
	must(t, err)
	until("the return of the faces", blue, faces(`{"10.0.0.7":"100.64.0.7"}`))
	blue.Faces = nil
	want(writer, red, blue)
	until("the end of the faces", blue, faces(""))
	version := until("the change", blue, has("10.0.0.7")).ResourceVersion
	must(t, writer.Flush(l.ctx))
	stop()

	// Another controller takes over: until it knows all that is wanted it does nothing; then it writes nothing that is
	// there, and removes what it does not want.
	next, stop := l.anotherWriter()
	defer stop()
	want(next, blue)
	until("the end of what nobody wants", red, gone)
	must(t, next.Flush(l.ctx))
	if now := until("the mirror", blue, has("10.0.0.7")).ResourceVersion; now != version {
		t.Errorf("a mirror that was right was written again: version %s, then %s", version, now)
	}
	want(next)
	until("the end", blue, gone)

	// What has no label of ours is not ours.
	if s, err := api.Get(l.ctx, "web-x", metav1.GetOptions{}); err != nil || s.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("the slice that was mirrored: %v, %v", s, err)
	}
	if _, is := of.Labels[corev1.IsHeadlessService]; is {
		t.Error("the slice that was mirrored has our label")
	}
}

// anotherWriter runs a Writer beside the lab's until stop.
func (l *lab) anotherWriter() (w *Writer, stop func()) {
	l.t.Helper()
	w, err := NewWriter(l.server.As(user), nil, WriterOptions{})
	must(l.t, err)
	ctx, cancel := context.WithCancel(l.ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	return w, func() { cancel(); <-ended }
}
