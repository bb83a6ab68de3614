package connectivity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
	"github.com/atoll-net/atoll/pkg/kube"
)

const (
	// systemNamespace and agentName are where the DaemonSet is whose image all nodes have.
	systemNamespace = "atoll-system"
	agentName       = "atoll-agent"
	// controlPlaneTaint is on nodes that take few pods.
	controlPlaneTaint = "node-role.kubernetes.io/control-plane"
	// execPatience is what an exec may take beyond the questions.
	execPatience = 15 * time.Second
)

var networkResource = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: v1alpha1.Version, Resource: "networks"}

// Cluster is the way to the API server.
type Cluster struct {
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// Connect is the way that kubectl takes; kubeconfig names a file, or is empty.
func Connect(kubeconfig string) (*Cluster, error) {
	cfg, err := kube.UserConfig(kubeconfig, "atoll-connectivity")
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return &Cluster{config: cfg, kube: client, dynamic: objects}, nil
}

// read reads an object of Atoll's.
func read[T any](ctx context.Context, c *Cluster, resource, name string) (*T, error) {
	o, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", resource, name, err)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", resource, name, err)
	}
	return into, nil
}

// settings reads what of the cluster's settings decides which paths there are.
func (c *Cluster) settings(ctx context.Context, s *scene) error {
	config, err := read[v1alpha1.AtollConfig](ctx, c, "atollconfigs", "cluster")
	if err != nil {
		return fmt.Errorf("is Atoll installed? %w", err)
	}
	if config.Status.Active == nil {
		return errors.New("the AtollConfig has no settings in force: does a controller lead? Next: atoll status")
	}
	active := config.Status.Active
	s.faces = slices.ContainsFunc(active.FaceCIDRs, func(r v1alpha1.CIDR) bool {
		p, err := netip.ParsePrefix(string(r))
		return err == nil && p.Addr().Is4()
	})
	network, err := read[v1alpha1.Network](ctx, c, "networks", active.DefaultNetwork)
	switch {
	case apierrors.IsNotFound(err):
		s.noPlain = fmt.Sprintf("there is no default Network %q", active.DefaultNetwork)
	case err != nil:
		return err
	case network.Spec.Type != v1alpha1.NetworkFlat:
		s.noPlain = "the default Network is not flat"
	case network.Spec.InfraAccess == v1alpha1.InfraNone:
		s.noPlain = "the default Network reaches no infrastructure"
	default:
		s.plainDirect = network.Spec.InfraAccess == v1alpha1.InfraDirect
	}
	return nil
}

// image is the one that the agents run, unless another is named.
func (c *Cluster) image(ctx context.Context, named string) (image, error) {
	if named != "" {
		return image{name: named, pull: corev1.PullIfNotPresent}, nil
	}
	agent, err := c.kube.AppsV1().DaemonSets(systemNamespace).Get(ctx, agentName, metav1.GetOptions{})
	if err != nil {
		return image{}, fmt.Errorf("find an image for the pods: name one that has atoll-probe by --image: %w", err)
	}
	for _, one := range agent.Spec.Template.Spec.Containers {
		// It is on the nodes, and where it came from may want a secret that the test's namespaces have not.
		return image{name: one.Image, pull: corev1.PullIfNotPresent}, nil
	}
	return image{}, errors.New("find an image for the pods: the agent has no container: name one that has atoll-probe by --image")
}

// nodes chooses two nodes that take pods, or the only one. Control plane nodes come last.
func (c *Cluster) nodes(ctx context.Context, s *scene) error {
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var workers, others []corev1.Node
	for _, n := range list.Items {
		if why := withoutNetwork(n); why != "" {
			s.withoutNetwork = append(s.withoutNetwork, nodeWithout{n.Name, why})
		}
		switch taken := takesPods(n); {
		case taken && controlPlane(n):
			others = append(others, n)
		case taken:
			workers = append(workers, n)
		}
	}
	chosen := slices.Concat(workers, others)
	if len(chosen) == 0 {
		return errors.New("no node is Ready and takes pods. Next: atoll status")
	}
	for _, n := range chosen[:min(2, len(chosen))] {
		s.nodes = append(s.nodes, n.Name)
	}
	for _, a := range chosen[0].Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && address.Is4() {
			s.nodeAddress = address
			break
		}
	}
	return nil
}

// takesPods reports whether a node is Ready and takes pods that tolerate the control plane's taint.
func takesPods(n corev1.Node) bool {
	if n.Spec.Unschedulable || n.Labels[corev1.LabelOSStable] != "linux" && n.Labels[corev1.LabelOSStable] != "" {
		return false
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != controlPlaneTaint {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// withoutNetwork is the kubelet's message about a node that gets no pods because its network plugin is not ready. It is empty if
// there is no such message.
func withoutNetwork(n corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "NetworkReady=false") {
			return short(c.Message)
		}
	}
	return ""
}

func controlPlane(n corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == controlPlaneTaint })
}

// ask asks a pod, by exec. Its network is not needed for it.
func (c *Cluster) ask(ctx context.Context, from podName, questions []probe.Question) ([]probe.Answer, error) {
	text, err := json.Marshal(questions)
	if err != nil {
		return nil, err
	}
	patience := time.Duration(0)
	for _, q := range questions {
		patience = max(patience, q.Patience)
	}
	ctx, cancel := context.WithTimeout(ctx, patience+execPatience)
	defer cancel()
	out, err := c.exec(ctx, from, program, "ask", string(text))
	if err != nil {
		return nil, err
	}
	var answers []probe.Answer
	if err := json.Unmarshal(out, &answers); err != nil {
		return nil, fmt.Errorf("read what pod %s says: %w", from, err)
	}
	if len(answers) != len(questions) {
		return nil, fmt.Errorf("read what pod %s says: it has %d answers to %d questions", from, len(answers), len(questions))
	}
	return answers, nil
}

// exec runs a command in a pod, as kubectl does, and returns what it prints.
func (c *Cluster) exec(ctx context.Context, p podName, command ...string) ([]byte, error) {
	request := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(prefix+p.namespace).Name(p.name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	older, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return nil, fmt.Errorf("prepare an exec: %w", err)
	}
	newer, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("prepare an exec: %w", err)
	}
	either, err := remotecommand.NewFallbackExecutor(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("prepare an exec: %w", err)
	}
	var out, failure bytes.Buffer
	if err := either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &failure}); err != nil {
		return nil, fmt.Errorf("run a command in pod %s: %w %s", p, err, strings.TrimSpace(failure.String()))
	}
	return out.Bytes(), nil
}
