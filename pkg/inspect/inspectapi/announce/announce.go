// Package announce tells the API server by which CAs atoll-inspect is known: in the APIService, which the controller that leads writes.
package announce

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

const (
	// announceEvery is how often the APIService is looked at, announceRetry while there is no authority, or it cannot be read.
	announceEvery, announceRetry = 30 * time.Second, time.Second
	// askTime bounds one try.
	askTime = 5 * time.Second
)

// APIServiceName is the name of the APIService.
func APIServiceName() string { return api.Version + "." + api.GroupName }

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

// Config says what is announced, and to whom.
type Config struct {
	// Objects reads and writes the APIService.
	Objects dynamic.Interface
	// Bundle is the CAs in PEM; nil while they are not known.
	Bundle func() []byte
	Log    *slog.Logger
}

// Run keeps the CAs in the APIService until ctx ends. It makes no APIService: a cluster whose APIService somebody has deleted
// wants none. One process runs it at a time, the one that leads.
func Run(ctx context.Context, c Config) {
	var said []byte
	var last string
	for {
		wait := announceEvery
		bundle := c.Bundle()
		if bundle == nil {
			wait = announceRetry
		} else if err := writeBundle(ctx, c.Objects, bundle); err != nil {
			wait = announceRetry
			if err.Error() != last && ctx.Err() == nil {
				c.Log.Warn("the APIService does not say by which CA inspection is known", "error", err)
			}
			last = err.Error()
		} else {
			if !bytes.Equal(said, bundle) {
				c.Log.Info("the APIService says by which CA inspection is known", "apiservice", APIServiceName())
			}
			said, last = bundle, ""
		}
		// A new CA is published a day before it signs: no hurry.
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func writeBundle(ctx context.Context, objects dynamic.Interface, bundle []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	services := objects.Resource(apiServices())
	object, err := services.Get(ctx, APIServiceName(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read APIService %s: %w", APIServiceName(), err)
	}
	text := base64.StdEncoding.EncodeToString(bundle)
	if have, _, _ := unstructured.NestedString(object.Object, "spec", "caBundle"); have == text {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": text}})
	if err != nil {
		return fmt.Errorf("write APIService %s: %w", APIServiceName(), err)
	}
	if _, err := services.Patch(ctx, APIServiceName(), types.MergePatchType, patch,
		meta.PatchOptions{FieldManager: "atoll-controller"}); err != nil {
		return fmt.Errorf("write APIService %s: %w", APIServiceName(), err)
	}
	return nil
}
