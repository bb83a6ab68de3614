package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

// writes counts the API server's PATCH requests, and the watches of pods that it ended because they fell behind. Nobody but the
// controller has any while we measure: there is no kubelet, and we only create.
type writes struct {
	pods, networks, watchesEnded float64
}

var endedCount = regexp.MustCompile(`^apiserver_terminated_watchers_total\{.*resource="pods".*\} ([0-9.e+]+)$`)

var patchCount = regexp.MustCompile(`^apiserver_request_total\{.*resource="(pods|networks)".*verb="(?:PATCH|APPLY)".*\} ([0-9.e+]+)$`)

// controllerWrites asks the API server how many writes it has had from the controller.
func (b *bench) controllerWrites(ctx context.Context) (writes, error) {
	text, err := b.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return writes{}, fmt.Errorf("read metrics of API server: %w", err)
	}
	var out writes
	for line := range strings.Lines(string(text)) {
		to := &out.watchesEnded
		m := endedCount.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			if m = patchCount.FindStringSubmatch(strings.TrimSpace(line)); m == nil {
				continue
			}
			to = map[string]*float64{"pods": &out.pods, "networks": &out.networks}[m[1]]
		}
		n, err := strconv.ParseFloat(m[len(m)-1], 64)
		if err != nil {
			return writes{}, fmt.Errorf("read metrics of API server: %w", err)
		}
		*to += n
	}
	return out, nil
}

// settle waits until every pod has its annotation, so that all writes have been counted.
func (b *bench) settle(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, lab.Patience, true, func(ctx context.Context) (bool, error) {
		pods, err := b.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
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
