package inprocess

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// The users.
const (
	// Operator may do everything.
	Operator = "operator"
	// Jo is the admin of the Tenant acme, whose Networks are red and acme, and whose namespace is red.
	Jo = "jo"
	// Ann is known, and may do nothing.
	Ann = "ann"
	// Checker has the ClusterRole atoll-check, Looker atoll-node-reader.
	Checker, Looker = "checker", "looker"
	// controller is Atoll's own.
	controllerUser = "system:serviceaccount:atoll-system:atoll-controller"
)

// right is what somebody wants to do.
type right struct {
	verb            string
	resource        schema.GroupResource
	subresource     string
	namespace, name string
}

// may is what RBAC says with the roles that dist installs.
func may(user string, r right) bool {
	inspection, reads := r.resource.Group == api.GroupName, r.verb == "get" || r.verb == "list" || r.verb == "watch"
	switch user {
	case Operator, controllerUser:
		return true
	case Checker:
		if inspection {
			return (r.resource.Resource == api.ResourceDatabases || r.resource.Resource == api.ResourceNodeChecks) && reads
		}
		return reads
	case Looker:
		return inspection && r.resource.Resource == api.ResourceNodes && r.verb == "get"
	case Jo:
		switch {
		case inspection && slices.Contains(append(api.NetworkResources(), api.ResourceFlows), r.resource.Resource):
			return r.verb == "list" || r.verb == "watch" || r.name == "red" || r.name == "acme"
		case inspection:
			return r.namespace == "red"
		}
		return r.namespace == "red" && (r.resource.Group == "" || strings.HasSuffix(r.resource.Group, ".k8s.io"))
	}
	return false
}

// review answers who a user is and what the user may do; it returns false for any other request.
func (s *server) review(w http.ResponseWriter, q request) bool {
	if q.Method != http.MethodPost {
		return false
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return true
	}
	q.Body = io.NopCloser(strings.NewReader(string(body)))
	switch q.resource.Resource {
	case "tokenreviews":
		review := read[authentication.TokenReview](q.Header.Get("Content-Type"), body)
		review.Status = authentication.TokenReviewStatus{
			Authenticated: review.Spec.Token != "", User: authentication.UserInfo{
				Username: review.Spec.Token, Groups: []string{"system:authenticated"},
			},
		}
		answer(w, http.StatusCreated, review)
	case "subjectaccessreviews":
		review := read[authorization.SubjectAccessReview](q.Header.Get("Content-Type"), body)
		review.Status.Allowed = may(review.Spec.User, of(review.Spec.ResourceAttributes))
		answer(w, http.StatusCreated, review)
	case "selfsubjectaccessreviews":
		review := read[authorization.SelfSubjectAccessReview](q.Header.Get("Content-Type"), body)
		review.Status.Allowed = may(q.user, of(review.Spec.ResourceAttributes))
		answer(w, http.StatusCreated, review)
	default:
		return false
	}
	return true
}

func of(a *authorization.ResourceAttributes) right {
	return right{a.Verb, schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Subresource, a.Namespace, a.Name}
}

// read is a review that came; one that cannot be read is of nobody.
func read[R any](contentType string, body []byte) R {
	var out R
	if object, err := decode(contentType, body); err == nil {
		text, _ := json.Marshal(object)
		_ = json.Unmarshal(text, &out)
	}
	return out
}
