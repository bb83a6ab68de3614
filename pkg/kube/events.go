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

	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// Events are for people to read. They have a limit of their own, so that thousands of pods that fail at once
	// do not take the way of those that start.
	eventsPerSecond, eventsBurst = 25, 100
	// maxMessage is what the API server accepts in an Event, in bytes.
	maxMessage = 1024
)

// events sends Events, Warnings unless they tell of something good, as far as the share goes that each is from. The recorder
// behind it joins what repeats and drops what comes too fast.
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

// Event tells the owner of an object what is wrong, as a Warning Event, or what is good. Of an object without a namespace it is in
// namespace default. The same words about the same object are not repeated for some minutes.
func (w *Writer) Event(about model.ObjectRef, p model.Problem) { w.events.send(about, p) }

// shareOf names the share of Events that one about an object is from: a namespace's or a Tenant's own, else that of all objects
// of its kind. Who writes Networks of one Tenant takes nothing from others.
func shareOf(about model.ObjectRef, p model.Problem) string {
	if about.Namespace != "" {
		return "namespace/" + about.Namespace
	}
	share := "kind/" + about.Kind
	if about.Tenant != "" {
		share = "tenant/" + about.Tenant
	}
	if p.Reason == model.ReasonIsolationHard || p.Reason == model.ReasonIsolationSoft {
		// This Event tells an operator that a tenant has opened its Networks. No other problem of the tenant may use up its share.
		share += "/isolation"
	}
	return share
}

func (e *events) send(about model.ObjectRef, p model.Problem) {
	message := p.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	if e.allowance.take(shareOf(about, p), said{uid: about.UID, reason: p.Reason, message: message}) {
		kind := corev1.EventTypeWarning
		if p.Reason == model.ReasonIsolationHard {
			kind = corev1.EventTypeNormal
		}
		e.recorder.Event(&corev1.ObjectReference{
			APIVersion: about.APIVersion, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name, UID: types.UID(about.UID),
		}, kind, p.Reason, message)
	}
}
