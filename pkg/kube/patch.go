package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// acceptMetadata asks for no more of the object than its metadata, so that neither side encodes a whole pod.
const acceptMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// annotate sets annotations of the target, and removes those that are null, through a subresource where one is named. They are a map,
// or a struct that is encoded as one.
func (t target) annotate(ctx context.Context, subresource string, annotations any) error {
	body, err := annotationsPatch(t.uid, annotations)
	if err != nil {
		return err
	}
	r := t.patch(types.MergePatchType, subresource, body).SetHeader("Accept", acceptMetadata)
	return t.outcome(ctx, r.Do(ctx).Error())
}

// annotationsPatch is the body of a merge patch (RFC 7386). The UID in it makes the API server refuse a later object of the same name.
func annotationsPatch(uid string, annotations any) ([]byte, error) {
	type metadata struct {
		UID         string `json:"uid"`
		Annotations any    `json:"annotations"`
	}
	return json.Marshal(struct {
		Metadata metadata `json:"metadata"`
	}{metadata{uid, annotations}})
}

// statusPatch is the body of the JSON patch (RFC 6902) that replaces the status of the Network with that UID.
func statusPatch(uid string, status v1alpha1.NetworkStatus) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	return json.Marshal([]operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "add", Path: "/status", Value: status},
	})
}

// finalizersPatch is the body of the merge patch that replaces the finalizers of exactly the object that was
// read.
func finalizersPatch(read metav1.Object, finalizers []string) ([]byte, error) {
	type metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
		Finalizers      []string  `json:"finalizers"`
	}
	var patch struct {
		Metadata metadata `json:"metadata"`
	}
	patch.Metadata = metadata{UID: read.GetUID(), ResourceVersion: read.GetResourceVersion(), Finalizers: finalizers}
	return json.Marshal(patch)
}

// target is the object that a patch is for.
type target struct {
	client    rest.Interface
	resource  string
	namespace string
	name      string
	uid       string
}

func (t target) patch(kind types.PatchType, subresource string, body []byte) *rest.Request {
	r := t.client.Patch(kind).
		NamespaceIfScoped(t.namespace, t.namespace != "").
		Resource(t.resource).Name(t.name).
		Param("fieldManager", component).
		Param("fieldValidation", "Ignore"). // the body is ours: no second, strict decoding at the server
		Body(body)
	if subresource != "" {
		r = r.SubResource(subresource)
	}
	return r
}

// refusedError says that the API server does not take this write for the very object that it was decided for:
// the same write would be refused again.
type refusedError struct{ cause error }

func (e *refusedError) Error() string { return e.cause.Error() }

func (e *refusedError) Unwrap() error { return e.cause }

// refuses tells the API server's no to a write from all that may be different a moment later.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// outcome tells a patch that came too late (errGone), and one that is refused (refusedError), from one that
// failed.
func (t target) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return errGone
	case apierrors.IsConflict(err), refuses(err):
		// A patch for another UID is a conflict or invalid; only the object itself tells for certain.
		gone, getErr := t.gone(ctx)
		if getErr != nil {
			break
		}
		if gone {
			return errGone
		}
		if refuses(err) {
			return &refusedError{cause: fmt.Errorf("patch %s: %w", t.resource, err)}
		}
	}
	return fmt.Errorf("patch %s: %w", t.resource, err)
}

// gone asks the API server whether the object with our UID is still there.
func (t target) gone(ctx context.Context) (bool, error) {
	raw, err := t.client.Get().
		NamespaceIfScoped(t.namespace, t.namespace != "").
		Resource(t.resource).Name(t.name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var found metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &found); err != nil {
		return false, fmt.Errorf("read metadata of %s: %w", t.resource, err)
	}
	return string(found.UID) != t.uid, nil
}
