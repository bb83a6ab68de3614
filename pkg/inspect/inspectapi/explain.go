package inspectapi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/kube/access"
)

// maxQuestion bounds a question's text, in bytes.
const maxQuestion = 64 << 10

// explain answers a question that is posted. Whoever may ask about every namespace is told everything; others are about those
// that they may.
func (h *handler) explain(r request) (any, error) {
	var question api.Explanation
	if err := readQuestion(r.text, &question); err != nil {
		return nil, err
	}
	may, err := h.mayAsk(r.Context(), r.who)
	if err != nil {
		return nil, err
	}
	if question.Spec.Raw {
		raw, err := h.mayExplain(r.Context(), r.who, "", api.SubresourceRaw)
		if err != nil {
			return nil, err
		}
		if !raw || may != nil {
			return nil, forbidden(r.who, attributes{verb: "create", resource: api.ResourceExplanations, subresource: api.SubresourceRaw})
		}
	}
	out := api.Explanation{TypeMeta: typeOf("Explanation"), Spec: question.Spec}
	out.Namespace = r.PathValue("namespace")
	if question.Spec.Send {
		out.Status, err = h.prove(r, question.Spec, may)
		return out, err
	}
	err = h.working(r, func() (err error) {
		out.Status, err = h.answers.Explain(r.Context(), question.Spec, may)
		return err
	})
	return out, err
}

// mayAsk is about which namespaces somebody may ask; nil: about all.
func (h *handler) mayAsk(ctx context.Context, who access.User) (question.MayAsk, error) {
	every, err := h.mayExplain(ctx, who, "", "")
	if err != nil || every {
		return nil, err
	}
	return func(namespace string) (bool, error) { return h.mayExplain(ctx, who, namespace, "") }, nil
}

// mayExplain reports whether somebody may ask about a namespace, or about all.
func (h *handler) mayExplain(ctx context.Context, who access.User, namespace, subresource string) (bool, error) {
	may, err := h.authz.may(ctx, who, attributes{
		verb: "create", resource: api.ResourceExplanations, subresource: subresource, namespace: namespace,
	})
	if err != nil {
		return false, apierrors.NewServiceUnavailable(err.Error())
	}
	return may, nil
}
