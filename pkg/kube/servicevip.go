package kube

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// serviceWorkers is how many writes to Services run at once: a Network that gets a range has many.
const serviceWorkers = 8

type serviceAddressesOf struct {
	uid string
	// addresses are nil when the annotation is to go.
	addresses *model.ServiceAddresses
}

// WriteServiceAddresses writes on the Service with that UID what it has of its Network's service ranges; nil takes the
// annotation away.
func (w *Writer) WriteServiceAddresses(service model.ServiceKey, uid string, a *model.ServiceAddresses) {
	w.services.put(service, serviceAddressesOf{uid: uid, addresses: a}, 0)
}

func (w *Writer) patchServiceAddresses(ctx context.Context, service model.ServiceKey, want serviceAddressesOf) error {
	body, err := serviceAddressesPatch(want)
	if err != nil {
		return err
	}
	t := target{
		client: w.clients.core.RESTClient(), resource: "services",
		namespace: service.Namespace, name: service.Name, uid: want.uid,
	}
	r := t.patch(types.MergePatchType, "", body).SetHeader("Accept", acceptMetadata)
	return t.outcome(ctx, r.Do(ctx).Error())
}

// serviceAddressesPatch is the body of the merge patch (RFC 7386) that sets AnnotationServiceAddresses, or removes it. The
// UID in it makes the API server refuse a later Service of the same name.
func serviceAddressesPatch(want serviceAddressesOf) ([]byte, error) {
	type metadata struct {
		UID         string             `json:"uid"`
		Annotations map[string]*string `json:"annotations"`
	}
	var patch struct {
		Metadata metadata `json:"metadata"`
	}
	patch.Metadata = metadata{UID: want.uid, Annotations: map[string]*string{model.AnnotationServiceAddresses: nil}}
	if want.addresses != nil {
		text := intake.ServiceAddressesAnnotation(*want.addresses)
		patch.Metadata.Annotations[model.AnnotationServiceAddresses] = &text
	}
	return json.Marshal(patch)
}
