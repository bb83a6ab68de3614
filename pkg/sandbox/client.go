package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-net/atoll/pkg/sandbox/place"
)

// RESTConfig returns the administrator's client configuration. Connections are made in the control plane's
// network namespace, so that it works in a process of the machine's. client-go does not use that for exec
// and port-forward streams; see PodExec.
func (s *Sandbox) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	config.Dial = s.dial
	config.QPS, config.Burst = -1, -1 // one user on one machine: nothing to be fair to
	return config, nil
}

// dial connects from the control plane's network namespace.
func (s *Sandbox) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := place.InNamespace(s.Namespace(Central), func() (err error) {
		conn, err = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// PodExec runs a command in a container of a pod, through the API as kubectl exec does, and returns what it wrote
// to its standard output. The error carries its standard error. An empty container name means the pod's only one.
func (s *Sandbox) PodExec(ctx context.Context, namespace, pod, container string, argv ...string) ([]byte, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	request := clients.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("load certificates: %w", err)
	}
	// The stream library takes the way to connect from a transport, not from the configuration.
	upgrader, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		PingPeriod:       5 * time.Second,
		UpgradeTransport: &http.Transport{DialContext: s.dial, TLSClientConfig: tlsConfig},
	})
	if err != nil {
		return nil, fmt.Errorf("make stream transport: %w", err)
	}
	executor, err := remotecommand.NewSPDYExecutorForTransports(upgrader, upgrader, http.MethodPost, request.URL())
	if err != nil {
		return nil, fmt.Errorf("make stream: %w", err)
	}
	var stdout, stderr bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return stdout.Bytes(), fmt.Errorf("run %s in pod %s/%s: %w: %s",
			strings.Join(argv, " "), namespace, pod, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
