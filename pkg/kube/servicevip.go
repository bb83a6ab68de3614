package kube

import (
	"context"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// serviceWorkers is how many writes to Services run at once: a Network that gets a range has many.
const serviceWorkers = 8

// WriteServiceAddresses writes on the Service with that UID what it has of its Network's service ranges; nil takes the
// annotation away.
func (w *Writer) WriteServiceAddresses(service model.ServiceKey, uid string, a *model.ServiceAddresses) {
	w.services.put(service, decided[*model.ServiceAddresses]{uid, a}, 0)
}

func (w *Writer) patchServiceAddresses(ctx context.Context, service model.ServiceKey, want decided[*model.ServiceAddresses]) error {
	t := target{
		client: w.clients.core.RESTClient(), resource: "services",
		namespace: service.Namespace, name: service.Name, uid: want.uid,
	}
	var text *string
	if want.value != nil {
		text = new(intake.ServiceAddressesAnnotation(*want.value))
	}
	return t.annotate(ctx, "", map[string]*string{model.AnnotationServiceAddresses: text})
}
