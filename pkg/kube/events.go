package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// Events are for people to read. They have a limit of their own, so that thousands of pods that fail at once
	// do not take the way of those that start.
	eventsPerSecond, eventsBurst = 25, 100
	// maxMessage is what the API server accepts in an Event, in bytes.
	maxMessage = 1024
)

// events sends Events, Warnings unless they tell of something good, as far as the share goes that each is from. The recorder behind it joins what
// repeats and drops what comes too fast.
type events struct {
	client      corev1client.EventsGetter
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	allowance   *allowance
}

func newEvents(cfg *rest.Config) (*events, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = eventsPerSecond, eventsBurst, nil
	client, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make events client: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	return &events{
		client:      client,
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component}),
		allowance:   newAllowance(),
	}, nil
}

func (e *events) run(ctx context.Context) {
	e.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: e.client.Events("")})
	<-ctx.Done()
	e.broadcaster.Shutdown()
}

// warn sends an Event about an object of a namespace, or about one of the operator's.
func (e *events) warn(about *corev1.ObjectReference, p model.Problem) {
	e.send(shareOf(about, ""), about, p)
}

// warnTenant sends an Event about an object of a Tenant, or of none.
func (e *events) warnTenant(tenant string, about *corev1.ObjectReference, p model.Problem) {
	share := shareOf(about, tenant)
	if p.Reason == model.ReasonIsolationHard || p.Reason == model.ReasonIsolationSoft {
		// By this an operator hears that a tenant has opened his Networks. Nothing else that he does wrong may silence it.
		share += "/isolation"
	}
	e.send(share, about, p)
}

// shareOf names the share of Events that one about an object is from: a namespace's or a Tenant's own, else that of all objects of its kind. Who writes
// Networks of one Tenant takes nothing from others.
func shareOf(about *corev1.ObjectReference, tenant string) string {
	switch {
	case about.Namespace != "":
		return "namespace/" + about.Namespace
	case tenant != "":
		return "tenant/" + tenant
	}
	return "kind/" + about.Kind
}

func (e *events) send(share string, about *corev1.ObjectReference, p model.Problem) {
	message := p.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	if e.allowance.take(share, said{uid: about.UID, reason: p.Reason, message: message}) {
		kind := corev1.EventTypeWarning
		if p.Reason == model.ReasonIsolationHard {
			kind = corev1.EventTypeNormal
		}
		e.recorder.Event(about, kind, p.Reason, message)
	}
}

func podReference(pod model.PodKey, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(uid),
	}
}

// networkReference names a Network; the Events of an object without a namespace are in namespace default.
func networkReference(name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network", Name: name, UID: types.UID(uid),
	}
}
