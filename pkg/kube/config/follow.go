package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// errNothing: the object is not valid, and was not before.
var errNothing = errors.New(
	"no settings are in force: AtollConfig " + v1alpha1.ConfigName + " is not valid (kubectl describe atollconfig " + v1alpha1.ConfigName +
		")")

// resourceOf is where AtollConfigs are.
func resourceOf(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource("atollconfigs"))
}

// Read gives the settings in force, once.
func Read(ctx context.Context, server *rest.Config) (Settings, error) {
	client, err := dynamic.NewForConfig(server)
	if err != nil {
		return Settings{}, fmt.Errorf("make API client: %w", err)
	}
	var object *v1alpha1.AtollConfig
	u, err := resourceOf(client).Get(ctx, v1alpha1.ConfigName, metav1.GetOptions{})
	if err == nil {
		object, err = read(u)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return Settings{}, fmt.Errorf("read AtollConfig: %w", err)
	}
	s, ok := InForce(object, nil)
	if !ok {
		return Settings{}, errNothing
	}
	return s, nil
}

// Follow calls use with the settings in force, and again whenever they are others, until ctx ends. failed is told what keeps it from that.
func Follow(ctx context.Context, client dynamic.Interface, failed func(error), use func(Settings)) {
	var last *Settings
	watch(ctx, client, failed, func(object *v1alpha1.AtollConfig) {
		s, ok := InForce(object, last)
		switch {
		case !ok:
			failed(errNothing)
		case last == nil || !reflect.DeepEqual(*last, s):
			last = &s
			use(s)
		}
	})
}

// watch calls seen with the object, and with nil while there is none, from one goroutine, until ctx ends.
func watch(ctx context.Context, client dynamic.Interface, failed func(error), seen func(*v1alpha1.AtollConfig)) {
	follow.Kind[*unstructured.Unstructured, string, v1alpha1.AtollConfig]{
		Name: "AtollConfig",
		Lister: follow.List(client, client.Resource(v1alpha1.SchemeGroupVersion.WithResource("atollconfigs")), follow.Options{
			Fields: fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.ConfigName).String(), Failed: failed,
		}),
		Key:  follow.ByName,
		Read: follow.Decoded(func(o *v1alpha1.AtollConfig) *v1alpha1.AtollConfig { return o }, func(_ string, err error) { failed(err) }),
		Sink: sink(seen),
	}.Source().Run(ctx)
}

// sink hands the one object on. One that cannot be read is as it was.
type sink func(*v1alpha1.AtollConfig)

// Set implements follow.Sink.
func (s sink) Set(_ string, object *v1alpha1.AtollConfig) {
	if object != nil {
		s(object)
	}
}

// Remove implements follow.Sink.
func (s sink) Remove(string, types.UID) { s(nil) }

// Replace implements follow.Sink.
func (s sink) Replace(all map[string]*v1alpha1.AtollConfig) {
	if object, has := all[v1alpha1.ConfigName]; !has || object != nil {
		s(object)
	}
}

func read(u *unstructured.Unstructured) (*v1alpha1.AtollConfig, error) {
	object := &v1alpha1.AtollConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, fmt.Errorf("read AtollConfig: %w", err)
	}
	return object, nil
}
