package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// events are those of Atoll's namespace, and those that Atoll's programs have written anywhere.
func (c *collector) events(ctx context.Context) {
	ours := func(o map[string]any) bool {
		source, _ := o["source"].(map[string]any)
		for _, by := range []any{source["component"], o["reportingComponent"], o["reportingController"]} {
			if text, is := by.(string); is && strings.HasPrefix(text, "atoll") {
				return true
			}
		}
		in, _ := o["metadata"].(map[string]any)
		return in["namespace"] == c.Namespace
	}
	k := of("", "v1", "events", "Events of Atoll's")
	all, err := c.list(ctx, k.GroupVersionResource, "", ours)
	if apierrors.IsForbidden(err) && len(c.namespaces) > 0 {
		c.partly(k.what, err)
		all, err = nil, nil
		for _, one := range c.listSome(ctx, k) {
			if object, is := one.(map[string]any); is && ours(object) {
				all = append(all, one)
			}
		}
	}
	if err != nil {
		c.miss(k.what, err)
		return
	}
	c.objects(File{Name: "objects/events.yaml", What: k.what}, all)
}

// programs are Atoll's pods with the logs of their containers, of those before a restart, too.
func (c *collector) programs(ctx context.Context) {
	pods, err := c.client.CoreV1().Pods(c.Namespace).List(ctx, meta.ListOptions{})
	if err != nil {
		c.miss("Atoll's pods, and their logs", err)
		return
	}
	if len(pods.Items) == 0 {
		c.miss("Atoll's pods, and their logs",
			fmt.Errorf("there are no pods in namespace %s: its programs run elsewhere, or in another namespace (--namespace)", c.Namespace))
		return
	}
	c.objects(File{Name: "objects/atoll-pods.yaml", What: "Atoll's pods"}, anys(pods.Items))
	for _, p := range pods.Items {
		restarts := map[string]int32{}
		for _, s := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
			restarts[s.Name] = s.RestartCount
		}
		for _, container := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			c.log(ctx, p.Name, container.Name, false)
			if restarts[container.Name] > 0 {
				c.log(ctx, p.Name, container.Name, true)
			}
		}
	}
}

// log is the newest part of a container's log.
func (c *collector) log(ctx context.Context, pod, container string, previous bool) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f := File{Name: fmt.Sprintf("logs/%s/%s.log", pod, container), What: "log of container " + container + " of pod " + pod}
	if previous {
		f.Name, f.What = fmt.Sprintf("logs/%s/%s.previous.log", pod, container), f.What+", before it was restarted"
	}
	stream, err := c.client.CoreV1().Pods(c.Namespace).GetLogs(pod,
		&core.PodLogOptions{Container: container, Previous: previous, Timestamps: true, TailLines: new(int64(logLines))}).Stream(ctx)
	if err != nil {
		c.miss(f.What, err)
		return
	}
	defer func() { _ = stream.Close() }()
	text, dropped, err := tail(stream, maxLog)
	if err != nil {
		c.miss("the end of the "+f.What, err)
	}
	lines := bytes.Count(text, []byte("\n"))
	switch {
	case dropped:
		f.Cut = fmt.Sprintf("only the last %d KiB are there", maxLog>>10)
	case lines >= logLines:
		f.Cut = fmt.Sprintf("only the last %d lines are there", logLines)
	}
	c.add(f, []byte(c.clean.text(string(text))))
}

// tail reads all, and keeps the last whole lines of so many bytes.
func tail(from io.Reader, most int) (out []byte, dropped bool, err error) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		out = append(out, buffer[:n]...)
		if len(out) > 2*most {
			out, dropped = append([]byte{}, out[len(out)-most:]...), true
		}
		if err == nil {
			continue
		}
		if len(out) > most {
			out, dropped = out[len(out)-most:], true
		}
		if first := bytes.IndexByte(out, '\n'); dropped && first >= 0 {
			out = out[first+1:]
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return out, dropped, err
	}
}
