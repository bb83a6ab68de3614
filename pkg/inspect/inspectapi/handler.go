package inspectapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/kube/access"
)

// handler answers requests.
type handler struct {
	answers Answers
	authn   *authenticator
	authz   *authorizer
	log     *slog.Logger
	places  places
	tenants tenants
	// flower tells of flows; nil where nobody does.
	flower *flower
	// prover has packets of explanations sent; nil where nobody does.
	prover *prover
}

// The patterns of what has a handler of its own: streams and connections.
const (
	pingPattern       = "POST /apis/" + api.GroupName + "/" + api.Version + "/namespaces/{namespace}/pods/{name}/" + api.SubresourcePing
	capturePattern    = "POST /apis/" + api.GroupName + "/" + api.Version + "/namespaces/{namespace}/pods/{name}/" + api.SubresourceCapture
	flowsPattern      = "GET /apis/" + api.GroupName + "/" + api.Version + "/" + api.ResourceFlows
	flowsNamePattern  = flowsPattern + "/{name}"
	podFlowsPattern   = "GET /apis/" + api.GroupName + "/" + api.Version + "/namespaces/{namespace}/" + api.ResourcePodFlows
	nodeChecksPattern = "GET /apis/" + api.GroupName + "/" + api.Version + "/" + api.ResourceNodeChecks
	nodeCheckPattern  = nodeChecksPattern + "/{name}"
	repairPattern     = "PUT /apis/" + api.GroupName + "/" + api.Version + "/" + api.ResourceNodeChecks + "/{name}"
	connectionPattern = "GET /apis/" + api.GroupName + "/" + api.Version + "/databases/{name}/" + api.SubresourceProxy
	nodePattern       = "GET /apis/" + api.GroupName + "/" + api.Version + "/nodes/{name}/" + api.SubresourceProxy
)

// root has what is answered in a turn, and own handlers, by their patterns, which bound themselves.
func (h *handler) root(own map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h.mux())
	for pattern, handler := range own {
		mux.Handle(pattern, handler)
	}
	return mux
}

func (h *handler) mux() http.Handler {
	mux := http.NewServeMux()
	root := "GET /apis/" + api.GroupName
	version := root + "/" + api.Version
	mux.HandleFunc(root, h.discovery(apiGroup()))
	mux.HandleFunc(version, h.discovery(h.apiResources()))
	for _, read := range h.answers.Reads {
		name := read.discovery.Name
		list, get := h.allowed("list", name, bound(h, read.list)), h.allowed("get", name, bound(h, read.get))
		mux.HandleFunc(version+"/"+name, list)
		if read.discovery.Namespaced {
			mux.HandleFunc(version+"/namespaces/{namespace}/"+name, list)
			mux.HandleFunc(version+"/namespaces/{namespace}/"+name+"/{name}", get)
		} else {
			mux.HandleFunc(version+"/"+name+"/{name}", get)
		}
	}
	creation := "POST /apis/" + api.GroupName + "/" + api.Version
	mux.HandleFunc(creation+"/explanations", h.allowed("create", api.ResourceExplanations, h.explain))
	mux.HandleFunc(creation+"/namespaces/{namespace}/explanations", h.allowed("create", api.ResourceExplanations, h.explain))
	mux.HandleFunc(creation+"/policytrials", h.allowed("create", api.ResourcePolicyTrials, h.try))
	mux.HandleFunc(creation+"/namespaces/{namespace}/policytrials", h.allowed("create", api.ResourcePolicyTrials, h.try))
	return mux
}

// discovery tells whoever is known which resources there are, as the API server itself does. It takes no turn: without it no
// client finds anything here.
func (h *handler) discovery(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := h.identify(r); err != nil {
			h.fail(w, err)
			return
		}
		write(w, http.StatusOK, value)
	}
}

// identify says who asks, or how that is answered.
func (h *handler) identify(r *http.Request) (access.User, error) {
	who, err := h.authn.who(r)
	switch {
	case errors.Is(err, errNobody):
		return who, apierrors.NewUnauthorized(err.Error())
	case err != nil:
		return who, apierrors.NewServiceUnavailable(err.Error())
	}
	return who, nil
}

// allowed answers whoever may, before anything is looked up. Only then they have a turn.
func (h *handler) allowed(verb, resource string, answer func(request) (any, error)) http.HandlerFunc {
	most := map[string]int64{api.ResourceExplanations: maxQuestion, api.ResourcePolicyTrials: maxTrial}[resource]
	return func(w http.ResponseWriter, r *http.Request) {
		asked, left, err := h.comes(w, r, most, func(asked request) error { return h.admits(asked, verb, resource) })
		if err != nil {
			h.fail(w, err)
			return
		}
		defer left()
		leave, err := await(r.Context(), h.places.turns, asked.share, h.places.turnTime)
		if err != nil {
			h.fail(w, err)
			return
		}
		left()
		// TimeoutHandler knows texts alone. What is answered in time has its own type.
		w.Header().Set("Content-Type", "application/json")
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A turn lasts as long as the work, also where nobody waits for it any more.
			defer leave()
			asked.Request = r
			h.answer(w, asked, answer)
		}), h.places.answerTime, tookTooLong()).ServeHTTP(w, r)
	}
}

// tookTooLong is a Status as the API server writes it. A text would look as if nobody had answered.
func tookTooLong() string {
	text, err := json.Marshal(statusOf(errTookTooLong))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var errTookTooLong = apierrors.NewServiceUnavailable("the answer took longer than it may")

func (h *handler) answer(w http.ResponseWriter, r request, answer func(request) (any, error)) {
	value, err := answer(r)
	switch ended := r.Context().Err(); {
	case errors.Is(ended, context.DeadlineExceeded) && errors.Is(err, question.ErrReading):
	case errors.Is(ended, context.DeadlineExceeded):
		err = errTookTooLong
	case ended != nil:
		return // Nobody wants it any more.
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	write(w, status, value)
}

// admits is an error unless who asks may, and knows what can be asked.
func (h *handler) admits(r request, verb, resource string) error {
	what := attributes{verb: verb, resource: resource, namespace: r.PathValue("namespace"), name: r.PathValue("name")}
	allowed, err := h.authz.may(r.Context(), r.who, what)
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	if !allowed {
		return forbidden(r.who, what)
	}
	for _, parameter := range []string{"watch", "labelSelector", "fieldSelector"} {
		if v := r.URL.Query().Get(parameter); v != "" && v != "false" && v != "0" {
			return apierrors.NewBadRequest(api.GroupName + " knows no " + parameter + ": ask again for what is new, and choose from the answer")
		}
	}
	return nil
}

// forbidden is what the API server itself says.
func forbidden(who access.User, what attributes) error {
	where := "at the cluster scope"
	if what.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", what.namespace)
	}
	group := cmp.Or(what.group, api.GroupName)
	resource := what.resource
	if what.subresource != "" {
		resource += "/" + what.subresource
	}
	//nolint:staticcheck // It is Kubernetes' own sentence.
	err := fmt.Errorf("User %q cannot %s resource %q in API group %q %s", who.Name, what.verb, resource, group, where)
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: what.resource}, what.name, err)
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: api.GroupName, Resource: resource}
}

// bound is a row's answer by this handler.
func bound(h *handler, answer func(*handler, request) (any, error)) func(request) (any, error) {
	return func(r request) (any, error) { return answer(h, r) }
}

func typeOf(kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: kind}
}

// fail answers with a Status, as the API server does.
func (h *handler) fail(w http.ResponseWriter, err error) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		answer := statusOf(status)
		if answer.Details != nil && answer.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(answer.Details.RetryAfterSeconds)))
		}
		write(w, int(answer.Code), answer)
		return
	}
	if q, ok := errors.AsType[*question.Error](err); ok {
		h.fail(w, apierrors.NewBadRequest(q.Error()))
		return
	}
	if errors.Is(err, question.ErrNotRead) || errors.Is(err, question.ErrReading) {
		h.fail(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	h.log.Error("a question cannot be answered", "error", err)
	h.fail(w, apierrors.NewInternalError(err))
}

func statusOf(err *apierrors.StatusError) meta.Status {
	status := err.ErrStatus
	status.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return status
}

func write(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // Who asked may have gone.
}

func apiGroup() meta.APIGroup {
	version := meta.GroupVersionForDiscovery{GroupVersion: api.GroupVersion().String(), Version: api.Version}
	return meta.APIGroup{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: api.GroupName, Versions: []meta.GroupVersionForDiscovery{version},
		PreferredVersion: version,
	}
}

func (h *handler) apiResources() meta.APIResourceList {
	out := meta.APIResourceList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: api.GroupVersion().String()}
	for _, read := range h.answers.Reads {
		out.APIResources = append(out.APIResources, read.discovery)
	}
	out.APIResources = append(out.APIResources, []meta.APIResource{
		{Name: api.ResourcePods + "/" + api.SubresourcePing, Kind: "PodPing", Namespaced: true, Verbs: meta.Verbs{"create"}},
		{Name: api.ResourceFlows, SingularName: "flows", Kind: "Flow", Verbs: meta.Verbs{"get", "list", "watch"}},
		{Name: api.ResourcePodFlows, SingularName: "podflows", Kind: "PodFlow", Namespaced: true, Verbs: meta.Verbs{"list", "watch"}},
		{Name: api.ResourcePods + "/" + api.SubresourceCapture, Kind: "PodCapture", Namespaced: true, Verbs: meta.Verbs{"create"}},
		{Name: api.ResourcePolicyTrials, SingularName: "policytrial", Kind: "PolicyTrial", Namespaced: true, Verbs: meta.Verbs{"create"}},
		{Name: api.ResourceExplanations, SingularName: "explanation", Kind: "Explanation", Namespaced: true, Verbs: meta.Verbs{"create"}},
		{Name: api.ResourceNodeChecks, SingularName: "nodecheck", Kind: "NodeCheck", Verbs: meta.Verbs{"get", "list", "update"}},
		{Name: api.ResourceDatabases + "/" + api.SubresourceProxy, Kind: "Database", Verbs: meta.Verbs{"get", "update"}},
		{Name: api.ResourceNodes + "/" + api.SubresourceProxy, Kind: "Node", Verbs: meta.Verbs{"get", "update"}},
	}...)
	return out
}
