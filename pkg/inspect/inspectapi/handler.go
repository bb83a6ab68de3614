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
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/kube/access"
)

// Answers are what questions are answered with. An inspect.Inquirer is one. What takes long ends with its context.
type Answers interface {
	Cluster(ctx context.Context) (api.Cluster, error)
	Networks(ctx context.Context) ([]api.Network, error)
	IPAMs(ctx context.Context) ([]api.IPAM, error)
	IPAM(ctx context.Context, name string) (api.IPAM, bool, error)
	IPAMChecks(ctx context.Context) ([]api.IPAMCheck, error)
	IPAMCheck(ctx context.Context, name string) (api.IPAMCheck, bool, error)
	Topologies(ctx context.Context) ([]api.Topology, error)
	Topology(ctx context.Context, name string) (api.Topology, bool, error)
	// TenantsOf are the Tenants whose admin somebody is.
	TenantsOf(user string, groups []string) (map[string]bool, error)
	// Tenants say in whose part somebody is counted.
	Tenants() (inspect.Tenants, error)
	Network(ctx context.Context, name string) (api.Network, bool, error)
	Pods(ctx context.Context, namespace string) ([]api.Pod, error)
	Pod(ctx context.Context, key model.PodKey) (api.Pod, bool, error)
	// Explain answers a question, as far as about namespaces that who asks may ask about.
	Explain(ctx context.Context, spec api.ExplanationSpec, may inspect.MayAsk) (api.ExplanationStatus, error)
	// Try says what would change if policies were others. Who may change them in their namespaces has been asked; may is as of Explain.
	Try(ctx context.Context, tried inspect.Tried, may inspect.MayAsk, seen *inspect.TriedFlows) (api.PolicyTrialStatus, error)
	// TriedNetworks are those whose flows have to do with it; nil: all.
	TriedNetworks(tried inspect.Tried) ([]string, error)
}

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
	mux.HandleFunc(version, h.discovery(apiResources()))
	mux.HandleFunc(version+"/clusters", h.allowed("list", api.ResourceClusters, h.clusters))
	mux.HandleFunc(version+"/clusters/{name}", h.allowed("get", api.ResourceClusters, h.cluster))
	mux.HandleFunc(version+"/networks", h.allowed("list", api.ResourceNetworks, h.networks))
	mux.HandleFunc(version+"/networks/{name}", h.allowed("get", api.ResourceNetworks, h.network))
	mux.HandleFunc(version+"/ipams", h.allowed("list", api.ResourceIPAMs, h.ipams))
	mux.HandleFunc(version+"/ipams/{name}", h.allowed("get", api.ResourceIPAMs, h.ipam))
	mux.HandleFunc(version+"/ipamchecks", h.allowed("list", api.ResourceIPAMChecks, h.ipamChecks))
	mux.HandleFunc(version+"/ipamchecks/{name}", h.allowed("get", api.ResourceIPAMChecks, h.ipamCheck))
	mux.HandleFunc(version+"/topologies", h.allowed("list", api.ResourceTopologies, h.topologies))
	mux.HandleFunc(version+"/topologies/{name}", h.allowed("get", api.ResourceTopologies, h.topology))
	mux.HandleFunc(version+"/pods", h.allowed("list", api.ResourcePods, h.pods))
	mux.HandleFunc(version+"/namespaces/{namespace}/pods", h.allowed("list", api.ResourcePods, h.pods))
	mux.HandleFunc(version+"/namespaces/{namespace}/pods/{name}", h.allowed("get", api.ResourcePods, h.pod))
	creation := "POST /apis/" + api.GroupName + "/" + api.Version
	mux.HandleFunc(creation+"/explanations", h.allowed("create", api.ResourceExplanations, h.explain))
	mux.HandleFunc(creation+"/namespaces/{namespace}/explanations", h.allowed("create", api.ResourceExplanations, h.explain))
	mux.HandleFunc(creation+"/policytrials", h.allowed("create", api.ResourcePolicyTrials, h.try))
	mux.HandleFunc(creation+"/namespaces/{namespace}/policytrials", h.allowed("create", api.ResourcePolicyTrials, h.try))
	return mux
}

// discovery tells whoever is known which resources there are, as the API server itself does. It takes no turn: without it no client finds anything here.
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
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: what.resource}, what.name,
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", who.Name, what.verb, resource, group, where)) //nolint:staticcheck // It is Kubernetes' own sentence.
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: api.GroupName, Resource: resource}
}

func (h *handler) clusters(r request) (any, error) {
	c, err := h.answers.Cluster(r.Context())
	if err != nil {
		return nil, err
	}
	return api.ClusterList{TypeMeta: typeOf("ClusterList"), Items: []api.Cluster{c}}, nil
}

func (h *handler) cluster(r request) (any, error) {
	if r.PathValue("name") != api.ClusterName {
		return nil, apierrors.NewNotFound(groupResource(api.ResourceClusters), r.PathValue("name"))
	}
	return h.answers.Cluster(r.Context())
}

func (h *handler) networks(r request) (any, error) {
	all, err := h.answers.Networks(r.Context())
	if err != nil {
		return nil, err
	}
	all, err = his(h, r, api.ResourceNetworks, all, func(n *api.Network) (string, string) { return n.Name, n.Status.Tenant })
	return api.NetworkList{TypeMeta: typeOf("NetworkList"), Items: all}, err
}

func (h *handler) network(r request) (any, error) {
	n, there, err := h.answers.Network(r.Context(), r.PathValue("name"))
	if err == nil && !there {
		err = apierrors.NewNotFound(groupResource(api.ResourceNetworks), r.PathValue("name"))
	}
	return n, err
}

func (h *handler) pods(r request) (any, error) {
	all, err := h.answers.Pods(r.Context(), r.PathValue("namespace"))
	if err != nil {
		return nil, err
	}
	return api.PodList{TypeMeta: typeOf("PodList"), Items: all}, nil
}

func (h *handler) pod(r request) (any, error) {
	key := model.PodKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	p, there, err := h.answers.Pod(r.Context(), key)
	if err == nil && !there {
		err = apierrors.NewNotFound(groupResource(api.ResourcePods), key.Name)
	}
	return p, err
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
	if q, ok := errors.AsType[*inspect.QuestionError](err); ok {
		h.fail(w, apierrors.NewBadRequest(q.Error()))
		return
	}
	if errors.Is(err, inspect.ErrNotRead) {
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
	return meta.APIGroup{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: api.GroupName, Versions: []meta.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

func apiResources() meta.APIResourceList {
	read := meta.Verbs{"get", "list"}
	return meta.APIResourceList{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: api.GroupVersion().String(),
		APIResources: []meta.APIResource{
			{Name: api.ResourceClusters, SingularName: "cluster", Kind: "Cluster", Verbs: read},
			{Name: api.ResourceNetworks, SingularName: "network", Kind: "Network", Verbs: read},
			{Name: api.ResourceIPAMs, SingularName: "ipam", Kind: "IPAM", Verbs: read},
			{Name: api.ResourceIPAMChecks, SingularName: "ipamcheck", Kind: "IPAMCheck", Verbs: read},
			{Name: api.ResourceTopologies, SingularName: "topology", Kind: "Topology", Verbs: read},
			{Name: api.ResourcePods, SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: read},
			{Name: api.ResourcePods + "/" + api.SubresourcePing, Kind: "PodPing", Namespaced: true, Verbs: meta.Verbs{"create"}},
			{Name: api.ResourceFlows, SingularName: "flows", Kind: "Flow", Verbs: meta.Verbs{"get", "list", "watch"}},
			{Name: api.ResourcePodFlows, SingularName: "podflows", Kind: "PodFlow", Namespaced: true, Verbs: meta.Verbs{"list", "watch"}},
			{Name: api.ResourcePods + "/" + api.SubresourceCapture, Kind: "PodCapture", Namespaced: true, Verbs: meta.Verbs{"create"}},
			{Name: api.ResourcePolicyTrials, SingularName: "policytrial", Kind: "PolicyTrial", Namespaced: true, Verbs: meta.Verbs{"create"}},
			{Name: api.ResourceExplanations, SingularName: "explanation", Kind: "Explanation", Namespaced: true, Verbs: meta.Verbs{"create"}},
			{Name: api.ResourceNodeChecks, SingularName: "nodecheck", Kind: "NodeCheck", Verbs: meta.Verbs{"get", "list", "update"}},
			{Name: api.ResourceDatabases + "/" + api.SubresourceProxy, Kind: "Database", Verbs: meta.Verbs{"get", "update"}},
			{Name: api.ResourceNodes + "/" + api.SubresourceProxy, Kind: "Node", Verbs: meta.Verbs{"get", "update"}},
		},
	}
}
