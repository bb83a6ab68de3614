package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/model"
)

// writes counts the API server's PATCH requests. Nobody but the controller sends any while we measure: there
// is no kubelet, and we only create.
type writes struct {
	pods, networks float64
}

var patchCount = regexp.MustCompile(`^apiserver_request_total\{.*resource="(pods|networks)".*verb="(?:PATCH|APPLY)".*\} ([0-9.e+]+)$`)

// controllerWrites asks the API server how many writes it has had from the controller.
func (l *lab) controllerWrites(ctx context.Context) (writes, error) {
	text, err := l.kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return writes{}, fmt.Errorf("read metrics of API server: %w", err)
	}
	var out writes
	for line := range strings.Lines(string(text)) {
		m := patchCount.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return writes{}, fmt.Errorf("read metrics of API server: %w", err)
		}
		if m[1] == "pods" {
			out.pods += n
		} else {
			out.networks += n
		}
	}
	return out, nil
}

// settle waits until every pod has its annotation, so that all writes have been counted.
func (l *lab) settle(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, loadTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := l.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			ResourceVersion: "0", FieldSelector: fields.Everything().String(),
		})
		if err != nil {
			return false, err
		}
		for _, p := range pods.Items {
			if p.Annotations[model.AnnotationAttachments] == "" {
				return false, nil
			}
		}
		return true, nil
	})
}

// phaseOf reads the phase of a Network as a watch gives it.
func phaseOf(object runtime.Object) string {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	phase, _, err := unstructured.NestedString(u.Object, "status", "phase")
	if err != nil {
		return ""
	}
	return phase
}

// runtimeJSON is a Network as a user writes it: without a status.
func runtimeJSON(object map[string]any) ([]byte, error) {
	delete(object, "status")
	return json.Marshal(object)
}
