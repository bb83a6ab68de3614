package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Daemon is a pod of a DaemonSet.
type Daemon struct{ Namespace, Pod, Node string }

// Daemons lists the pods with a label that are on a node, in the order of nodes.
func Daemons(ctx context.Context, cfg *rest.Config, namespace, selector string) ([]Daemon, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out []Daemon
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			out = append(out, Daemon{Namespace: p.Namespace, Pod: p.Name, Node: p.Spec.NodeName})
		}
	}
	slices.SortFunc(out, func(a, b Daemon) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pod, b.Pod)) })
	return out, nil
}

// Forward opens a port of this host that leads to a port of the daemon, on the loopback interface that it has, by way of the
// API server; until stop is called.
func Forward(ctx context.Context, cfg *rest.Config, to Daemon, port uint16) (address string, stop func(), err error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("make API client: %w", err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("make API client: %w", err)
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.Namespace).Name(to.Pod).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ending, ready := make(chan struct{}), make(chan struct{})
	var complaints strings.Builder
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ending, ready, io.Discard,
		&complaints)
	if err != nil {
		return "", nil, fmt.Errorf("forward a port to %s: %w", to.Pod, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	stop = sync.OnceFunc(func() { close(ending) })
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("forward a port to %s: %w", to.Pod, errors.Join(err, complaint(complaints.String())))
	case <-ctx.Done():
		stop()
		return "", nil, fmt.Errorf("forward a port to %s: %w", to.Pod, context.Cause(ctx))
	}
	ports, err := f.GetPorts()
	if err != nil || len(ports) == 0 {
		stop()
		return "", nil, fmt.Errorf("forward a port to %s: %w", to.Pod, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

func complaint(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}
