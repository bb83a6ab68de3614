package matrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// defaultNetwork is the Network of pods for which nobody chose one.
const defaultNetwork = "default"

// pingPeriod keeps an exec's connection alive while it is silent.
const pingPeriod = 5 * time.Second

// List returns the Running pods that match a label selector, in the order of Sort.
func List(ctx context.Context, client kubernetes.Interface, selector string) ([]Pod, error) {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	chosen := map[string]string{}
	for _, ns := range namespaces.Items {
		chosen[ns.Name] = model.Namespace{Labels: ns.Labels}.Home()
	}
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []Pod
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		address, err := AddressOf(&p)
		if err != nil {
			return nil, err
		}
		pods = append(pods, Pod{
			Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Address: address,
			Network: cmp.Or(p.Labels[model.LabelNetwork], chosen[p.Namespace], defaultNetwork),
		})
	}
	Sort(pods)
	return pods, nil
}

// AddressOf is the pod's own address in its Network: what its network-status says, which other programs of
// the cluster read too.
func AddressOf(p *corev1.Pod) (netip.Addr, error) {
	var interfaces []struct {
		IPs     []netip.Addr `json:"ips"`
		Default bool         `json:"default"`
	}
	if err := json.Unmarshal([]byte(p.Annotations[model.AnnotationNetworkStatus]), &interfaces); err != nil {
		return netip.Addr{}, fmt.Errorf("read %s of %s/%s: %w", model.AnnotationNetworkStatus, p.Namespace, p.Name, err)
	}
	for _, i := range interfaces {
		if i.Default && len(i.IPs) > 0 {
			return i.IPs[0], nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s/%s has no default interface with an address in %s", p.Namespace, p.Name, model.AnnotationNetworkStatus)
}

// NewExec returns an Exec through the cluster's API server. It dials as config says, which only SPDY does: the
// WebSocket client has a dialer of its own.
func NewExec(config *rest.Config, client kubernetes.Interface) (Exec, error) {
	dialing, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare execs: %w", err)
	}
	return func(ctx context.Context, namespace, pod string, stdin io.Reader, command ...string) ([]byte, error) {
		upgrader, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: dialing, PingPeriod: pingPeriod})
		if err != nil {
			return nil, fmt.Errorf("prepare an exec: %w", err)
		}
		transport, err := rest.HTTPWrappersForConfig(config, upgrader)
		if err != nil {
			return nil, fmt.Errorf("prepare an exec: %w", err)
		}
		request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Command: command, Stdin: stdin != nil, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec)
		executor, err := remotecommand.NewSPDYExecutorForTransports(transport, upgrader, "POST", request.URL())
		if err != nil {
			return nil, fmt.Errorf("prepare an exec: %w", err)
		}
		var stdout, stderr bytes.Buffer
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: &stdout, Stderr: &stderr})
		if err != nil {
			if said := strings.TrimSpace(stderr.String()); said != "" {
				err = fmt.Errorf("%w: %s", err, said)
			}
			return nil, fmt.Errorf("run %s in %s/%s: %w", strings.Join(command, " "), namespace, pod, err)
		}
		return stdout.Bytes(), nil
	}, nil
}
