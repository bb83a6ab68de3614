package kube

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// How many writes of each kind run at once. One write per pod is on the way of every pod that starts; the API
// server's own default is to run 200 changes at once for all its clients.
const (
	attachmentWorkers = 32
	statusWorkers     = 4
	finalizerWorkers  = 4
)

// WriterOptions of a Writer. The zero value logs to slog's default and counts nothing.
type WriterOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Writer writes decisions to the API server, in the background: its methods return at once. Of several
// decisions about one object the last wins.
type Writer struct {
	boxes    boxes
	clients  clients
	statuses *statuses[string, v1alpha1.NetworkStatus]
	events   *events

	attachments *outbox[model.PodKey, decided[[]model.Attachment]]
	// refuse is told of pods that nothing can be written on, and when that is worth another try; nil when nobody is.
	refuse   func(pod model.PodKey, uid, why string, again time.Duration)
	networks *outbox[string, decided[model.NetworkStatus]]
	// finalizers are to be there, or not.
	finalizers *outbox[string, decided[bool]]
	nodes      *outbox[string, decided[model.NodeNetwork]]
	services   *outbox[model.ServiceKey, decided[*model.ServiceAddresses]]
	mirrors    *mirrors
	views      *views
	gateways   *gatewayWriter
	tenants    *tenantWriter
	pace       *pace
}

// decided is what is to be written on the object with a UID.
type decided[V any] struct {
	uid   string
	value V
}

// NewWriter prepares a Writer; Run starts it, and must be called to end what NewWriter has begun. feed, which
// may be nil, tells what statuses the API server holds already.
func NewWriter(cfg *rest.Config, feed *Feed, opts WriterOptions) (*Writer, error) {
	c, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	results, err := writeCounter(opts.Registerer)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		boxes: boxes{log: opts.Logger, results: results}, clients: c, statuses: newStatuses[string, v1alpha1.NetworkStatus](), pace: newPace(),
	}
	if w.events, err = newEvents(cfg); err != nil {
		return nil, err
	}
	w.attachments = newOutbox(&w.boxes, "attachments", attachmentWorkers, w.patchAttachments)
	w.attachments.refused = w.attachmentsRefused
	w.networks = newOutbox(&w.boxes, "status", statusWorkers, w.patchStatus)
	w.finalizers = newOutbox(&w.boxes, "finalizer", finalizerWorkers, w.patchFinalizer)
	w.nodes = newOutbox(&w.boxes, "node", nodeWorkers, w.patchNode)
	w.services = newOutbox(&w.boxes, "service", serviceWorkers, w.patchServiceAddresses)
	w.mirrors, w.views = w.newMirrors(), w.newViews()
	w.gateways, w.tenants = w.newGateways(), w.newTenants()
	if feed != nil {
		w.statuses, w.gateways.statuses, w.tenants.known = feed.statuses, feed.gateways.statuses, feed.tenants
		feed.tellOfPods(w.attachments.again)
		w.refuse = feed.refusePod
	}
	return w, nil
}

// Run writes until ctx ends. What is still wanted then is lost: whoever comes after decides anew. It returns
// when everything that belongs to the Writer has stopped.
func (w *Writer) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, run := range w.boxes.runs {
		running.Go(func() { run(ctx) })
	}
	running.Go(func() { w.events.run(ctx) })
	running.Wait()
}

// Flush waits until nothing is left to write but Events.
func (w *Writer) Flush(ctx context.Context) error {
	for _, idle := range w.boxes.idle {
		select {
		case <-idle():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// WriteAttachments writes the annotations of the pod with that UID that tell its node and its users what it
// got; with none it removes them. When the API server refuses them, an Event on the pod says so, and they are
// tried again once the pod changes.
func (w *Writer) WriteAttachments(pod model.PodKey, uid string, attachments []model.Attachment) {
	w.attachments.put(pod, decided[[]model.Attachment]{uid, attachments}, 0)
}

// Forget wants nothing more written on a pod. Whoever decides calls it when the pod leaves, before it decides
// anything for a successor of the same name. A write that is under way still ends; it names the pod's UID.
func (w *Writer) Forget(pod model.PodKey) { w.attachments.drop(pod) }

func (w *Writer) patchAttachments(ctx context.Context, pod model.PodKey, want decided[[]model.Attachment]) error {
	t := target{
		client: w.clients.core.RESTClient(), resource: "pods",
		namespace: pod.Namespace, name: pod.Name, uid: want.uid,
	}
	// By way of the status, through which metadata can be written too: fewer policies and webhooks look at that, and the controller
	// needs no right to change what a pod is.
	return t.annotate(ctx, "status", annotationsOf(want.value))
}

// podAnnotations are what is written on a pod; without attachments it has none of them.
type podAnnotations struct {
	Attachments *string `json:"atoll.dev/attachments"`
	Addresses   *string `json:"atoll.dev/addresses"`
	Status      *string `json:"k8s.v1.cni.cncf.io/network-status"`
}

func annotationsOf(list []model.Attachment) podAnnotations {
	if len(list) == 0 {
		return podAnnotations{}
	}
	return podAnnotations{
		new(intake.AttachmentsAnnotation(list)), new(intake.AddressesAnnotation(list)), new(intake.NetworkStatusAnnotation(list)),
	}
}
