package lab

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// networkCreators is how many Networks are made at once.
const networkCreators = 16

// Network describes a Network of type vpc, as its user writes it.
func Network(name string, subnets ...v1alpha1.Subnet) *v1alpha1.Network {
	return &v1alpha1.Network{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NetworkSpec{Type: v1alpha1.NetworkVPC, Subnets: subnets},
	}
}

// CreateNetworks makes Networks and waits until pods may attach to all of them.
func (l *Lab) CreateNetworks(ctx context.Context, networks ...*v1alpha1.Network) error {
	load := Load{Count: len(networks), Workers: networkCreators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return l.Apply(ctx, networks[i]) }); err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, n := range networks {
		missing[n.Name] = true
	}
	return l.awaitReady(ctx, missing)
}

// Apply makes a Network or changes it.
func (l *Lab) Apply(ctx context.Context, n *v1alpha1.Network) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return fmt.Errorf("encode Network %s: %w", n.Name, err)
	}
	delete(object, "status")
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode Network %s: %w", n.Name, err)
	}
	_, err = l.Networks.Patch(ctx, n.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "lab"})
	return err
}

// awaitReady watches until the phase of every Network that is missing has been Ready. A watch without a version
// begins with all that is there. The API server may end one whose reader is slow: then the next begins.
func (l *Lab) awaitReady(ctx context.Context, missing map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for len(missing) > 0 {
		if err := l.watchReady(ctx, missing); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for %d Networks: %w", len(missing), err)
		}
	}
	return nil
}

// watchReady takes from missing what is Ready, until nothing is or the watch ends.
func (l *Lab) watchReady(ctx context.Context, missing map[string]bool) error {
	w, err := l.Networks.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Networks: %w", err)
	}
	defer w.Stop()
	for len(missing) > 0 {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if u, ok := e.Object.(*unstructured.Unstructured); ok && phaseOf(u) == string(v1alpha1.NetworkReady) {
				delete(missing, u.GetName())
			}
		case <-l.Controller.Done():
			return l.Controller.Ended()
		}
	}
	return nil
}

func phaseOf(u *unstructured.Unstructured) string {
	phase, _, err := unstructured.NestedString(u.Object, "status", "phase")
	if err != nil {
		return ""
	}
	return phase
}

// CreateNamespaces makes namespaces whose pods go into the Network of the same name.
func (l *Lab) CreateNamespaces(ctx context.Context, names ...string) error {
	load := Load{Count: len(names), Workers: networkCreators}
	return load.Run(ctx, func(ctx context.Context, i int) error {
		_, err := l.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: names[i], Labels: map[string]string{model.LabelNetwork: names[i]},
		}}, metav1.CreateOptions{})
		return err
	})
}
