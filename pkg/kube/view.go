package kube

import (
	"crypto/sha256"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// viewWorkers is how many views are written at once. Nobody waits for them: pods' addresses come first.
const viewWorkers = 2

// statusSum tells statuses apart.
type statusSum [sha256.Size]byte

// views keeps NetworkViews.
type views = upkeep[*v1alpha1.NetworkView, model.ViewKey, model.View, statusSum]

// WriteViews shows namespaces what they see of Networks; nil takes a view away. The first call names all that are wanted: what the API
// server holds beside them is deleted.
func (w *Writer) WriteViews(changed map[model.ViewKey]*model.View) { w.views.want(changed) }

func sumOf(v *v1alpha1.NetworkView) statusSum {
	text, err := json.Marshal(v.Status)
	if err != nil {
		return statusSum{} // strings and numbers always marshal
	}
	return sha256.Sum256(text)
}

func (w *Writer) newViews() *views {
	v := &views{
		client: w.clients.network, resource: "networkviews", hold: sumOf,
		object: func(key model.ViewKey, view *model.View) *v1alpha1.NetworkView {
			return &v1alpha1.NetworkView{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Network}, Status: intake.View(*view)}
		},
		same: func(want *v1alpha1.NetworkView, have statusSum) bool { return sumOf(want) == have },
	}
	key := func(namespace, name string) model.ViewKey { return model.ViewKey{Namespace: namespace, Network: name} }
	v.start(&w.boxes, "view", viewWorkers, key, "")
	return v
}
