package inprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// server is an API server for clients that read lists, watch, patch and create. The token of a user is the user's name.
type server struct {
	objects *objects
	// inspection is where the API inspect.atoll.dev is served; nil: nobody answers for it.
	inspection *httputil.ReverseProxy
}

// request is one that is being answered.
type request struct {
	*http.Request
	user string
	// resource and place are of what it is about; subresource is empty for most.
	resource    schema.GroupVersionResource
	place       place
	subresource string
}

// verbs of Kubernetes by method, of one object.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case user == "":
		fail(w, apierrors.NewUnauthorized("Unauthorized"))
	case r.URL.Path == "/version":
		answer(w, http.StatusOK, map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.2"})
	case strings.HasPrefix(r.URL.Path, "/apis/"+api.GroupName+"/"):
		if s.inspection == nil {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
			return
		}
		s.inspection.ServeHTTP(w, r)
	default:
		if found := discover(r.URL.Path); found != nil {
			answer(w, http.StatusOK, found)
			return
		}
		q, known := parse(r)
		if !known {
			fail(w, apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method), schema.GroupResource{}, "", "", 0, true))
			return
		}
		q.user = user
		s.serve(w, q)
	}
}

// parse reads /api/v1/... and /apis/GROUP/VERSION/..., [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]].
func parse(r *http.Request) (request, bool) {
	q := request{Request: r}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		q.resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		q.resource.Group, q.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return q, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.place.namespace, parts = parts[1], parts[2:]
	}
	q.resource.Resource = parts[0]
	q.place.resource = q.resource.GroupResource()
	if len(parts) > 1 {
		q.place.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = strings.Join(parts[2:], "/")
	}
	return q, true
}

func (s *server) serve(w http.ResponseWriter, q request) {
	if s.review(w, q) {
		return
	}
	verb := verbs[q.Method]
	watched := q.URL.Query().Get("watch") == "true" || q.URL.Query().Get("watch") == "1"
	if q.Method == http.MethodGet && q.place.name == "" {
		if verb = "list"; watched {
			verb = "watch"
		}
	}
	if !may(q.user, right{verb, q.place.resource, q.subresource, q.place.namespace, q.place.name}) {
		//nolint:staticcheck // It is Kubernetes' own sentence.
		fail(w, apierrors.NewForbidden(q.place.resource, q.place.name, fmt.Errorf("User %q cannot %s resource %q in API group %q%s",
			q.user, verb, q.resource.Resource, q.resource.Group, where(q.place.namespace))))
		return
	}
	switch verb {
	case "list":
		s.list(w, q)
	case "watch":
		s.watch(w, q)
	default:
		status := http.StatusOK
		if q.Method == http.MethodPost {
			status = http.StatusCreated
		}
		object, err := s.one(q)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, status, object)
	}
}

func where(namespace string) string {
	if namespace == "" {
		return " at the cluster scope"
	}
	return fmt.Sprintf(" in the namespace %q", namespace)
}

// one does what is asked with one object.
func (s *server) one(q request) (any, error) {
	dry := q.URL.Query().Get("dryRun") != ""
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch q.Method {
	case http.MethodGet:
		return s.objects.get(q.place)
	case http.MethodDelete:
		options, err := decode(q.Header.Get("Content-Type"), body)
		if len(body) > 0 && err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		wish, _, _ := unstructured.NestedSlice(options.Object, "dryRun")
		return meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: meta.StatusSuccess}, s.objects.remove(q.place,
			dry || len(wish) > 0)
	case http.MethodPatch:
		return s.patch(q, body, dry)
	}
	object, err := decode(q.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.Method == http.MethodPut {
		return s.objects.update(q.place, dry, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return object, nil })
	}
	if object.GetName() == "" {
		object.SetName(object.GetGenerateName() + strconv.Itoa(len(body)))
	}
	object.SetNamespace(q.place.namespace)
	q.place.name = object.GetName()
	return s.objects.create(q.place, object, dry)
}

func (s *server) patch(q request, body []byte, dry bool) (any, error) {
	kind := types.PatchType(q.Header.Get("Content-Type"))
	if kind == types.JSONPatchType {
		return s.objects.update(q.place, dry, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return patched(object, body)
		})
	}
	patch, err := decode("", body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out, err := s.objects.update(q.place, dry, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		object.Object = merged(object.Object, patch.Object)
		return object, nil
	})
	if apierrors.IsNotFound(err) && kind == types.ApplyPatchType {
		patch.SetNamespace(q.place.namespace)
		return s.objects.create(q.place, patch, dry)
	}
	return out, err
}

// decode reads an object in JSON, or of Kubernetes' own kinds in its other encoding.
func decode(contentType string, body []byte) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	if !strings.Contains(contentType, "protobuf") {
		return out, json.Unmarshal(body, &out.Object)
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if out.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, err
	}
	out.SetGroupVersionKind(*kind)
	return out, nil
}

func (q request) chosen() (chosen, error) {
	about, err := fields.ParseSelector(q.URL.Query().Get("fieldSelector"))
	labelled, labelErr := labels.Parse(q.URL.Query().Get("labelSelector"))
	return chosen{q.place.resource, q.place.namespace, about, labelled}, errors.Join(err, labelErr)
}

func (s *server) list(w http.ResponseWriter, q request) {
	c, err := q.chosen()
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	items, version := s.objects.list(c)
	list := map[string]any{
		"kind": listKind(q.resource), "apiVersion": q.resource.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items,
	}
	if items == nil {
		list["items"] = []any{}
	}
	answer(w, http.StatusOK, list)
}

func (s *server) watch(w http.ResponseWriter, q request) {
	c, err := q.chosen()
	version, atoiErr := strconv.Atoi(q.URL.Query().Get("resourceVersion"))
	if err != nil || atoiErr != nil || q.URL.Query().Get("sendInitialEvents") != "" {
		// Who would watch from nothing lists first.
		fail(w, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	for {
		changes, news := s.objects.since(version)
		for _, happened := range changes {
			if c.has(happened.place, happened.object) {
				_ = out.Encode(map[string]any{"type": happened.kind, "object": happened.object}) // Who watched may have gone.
			}
		}
		version += len(changes)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-news:
		case <-q.Context().Done():
			return
		}
	}
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // Who asked may have gone.
}

// fail answers with a Status, as the API server does.
func fail(w http.ResponseWriter, err error) {
	status, known := errors.AsType[*apierrors.StatusError](err)
	if !known {
		status = apierrors.NewInternalError(err)
	}
	said := status.ErrStatus
	said.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(said.Code), said)
}
