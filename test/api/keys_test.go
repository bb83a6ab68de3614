//go:build integration

package api

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// heard are the warnings that a client was given, as kubectl prints them.
type heard struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

// take is what came since it was last asked.
func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.texts, "\n")
	h.texts = nil
	return text
}

// testKeys: who writes a label or an annotation of Atoll's that means nothing is warned, and has it all the same.
func testKeys(t *testing.T, s *apiserver.Server) {
	const nothing = "means nothing on"
	var warnings heard
	config := s.As("tenant", core)
	config.WarningHandler = &warnings
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods, namespaces := client.CoreV1().Pods("team"), client.CoreV1().Namespaces()
	object := func(labels, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "keyed", Labels: labels, Annotations: annotations}
	}
	makePod := func(ctx context.Context, labels, annotations map[string]string) error {
		p := spec(func(*corev1.PodSpec, *corev1.Container) {})
		p.ObjectMeta = object(labels, annotations)
		_, err := pods.Create(ctx, p, dry)
		return err
	}
	makeSpace := func(ctx context.Context, labels, annotations map[string]string) error {
		_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: object(labels, annotations)}, dry)
		return err
	}
	typo, wrong := map[string]string{"atoll.dev/netwrok": "red"}, map[string]string{"atoll.dev/network": "red"}
	for _, try := range []func(context.Context, map[string]string, map[string]string) error{makePod, makeSpace} {
		wait.Until(t, wait.Patience, "a warning", func() bool {
			if err := try(t.Context(), typo, nil); err != nil {
				t.Fatal(err)
			}
			return strings.Contains(warnings.take(), nothing)
		})
	}
	for _, test := range []struct {
		what, warning string
		do            func() error
	}{
		{"a pod's label", nothing + " pods", func() error { return makePod(t.Context(), typo, nil) }},
		{"a pod's annotation", nothing + " pods", func() error { return makePod(t.Context(), nil, map[string]string{"atoll.dev/nic": "[]"}) }},
		{"a label as an annotation", nothing + " pods", func() error { return makePod(t.Context(), nil, wrong) }},
		{"a pod's own", "", func() error { return makePod(t.Context(), wrong, map[string]string{"atoll.dev/nics": "[]"}) }},
		{"others' keys", "", func() error {
			return makePod(t.Context(), map[string]string{"atoll.development/x": ""}, map[string]string{"a": "b"})
		}},
		{
			"a namespace's label", nothing + " namespaces",
			func() error { return makeSpace(t.Context(), map[string]string{"atoll.dev/tenent": "acme"}, nil) },
		},
		{"a namespace's annotation", nothing + " namespaces", func() error { return makeSpace(t.Context(), nil, wrong) }},
		{"a namespace without any", "", func() error { return makeSpace(t.Context(), map[string]string{"a": "b"}, nil) }},
		{"a pod that is there", nothing + " pods", func() error {
			p := spec(func(*corev1.PodSpec, *corev1.Container) {})
			p.Name = "keyed"
			if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				return err
			}
			_, err := pods.Patch(t.Context(), "keyed", types.MergePatchType, merge("labels", "atoll.dev/netwrok", "red"), metav1.PatchOptions{})
			return err
		}},
		{"it is not said again", "", func() error {
			_, err := pods.Patch(t.Context(), "keyed", types.MergePatchType, merge("labels", "a", "b"), metav1.PatchOptions{})
			return err
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			warnings.take()
			if err := test.do(); err != nil {
				t.Fatal(err)
			}
			if got := warnings.take(); test.warning == "" && got != "" || !strings.Contains(got, test.warning) {
				t.Errorf("warned with %q, want %q", got, test.warning)
			}
		})
	}
}
