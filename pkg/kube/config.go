package kube

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// component is our name towards the API server: user agent, field manager and source of Events.
const component = "atoll-controller"

// Config is the way to the API server: that of a kubeconfig file, or with an empty name that of the pod we
// run in. qps and burst bound our requests per second; a negative qps lifts the bound.
func Config(kubeconfig string, qps float32, burst int) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = qps, burst
	cfg.UserAgent = component + "/" + version()
	return cfg, nil
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// clients are REST clients that share one connection and one limit. Those who watch and those who write have clients of their own.
type clients struct {
	core      *corev1client.CoreV1Client
	discovery *discoveryclient.DiscoveryV1Client
	network   *rest.RESTClient
	gateway   *rest.RESTClient
	// networking has NetworkPolicies, policy ClusterNetworkPolicies.
	networking *networkingclient.NetworkingV1Client
	policy     *rest.RESTClient
	rbac       rest.Interface
}

func newClients(cfg *rest.Config) (clients, error) {
	var none clients
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS > 0 {
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	}
	core := rest.CopyConfig(cfg)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	transport, err := rest.HTTPClientFor(core)
	if err != nil {
		return none, fmt.Errorf("make API client: %w", err)
	}
	coreClient, err := corev1client.NewForConfigAndClient(core, transport)
	if err != nil {
		return none, fmt.Errorf("make API client: %w", err)
	}
	discoveryClient, err := discoveryclient.NewForConfigAndClient(core, transport)
	if err != nil {
		return none, fmt.Errorf("make API client: %w", err)
	}
	networkClient, err := newClient(cfg, transport, "Network", v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
	if err != nil {
		return none, err
	}
	gatewayClient, err := newClient(cfg, transport, "Gateway", schema.GroupVersion(gatewayv1.GroupVersion), gatewayv1.Install)
	if err != nil {
		return none, err
	}
	networkingClient, err := networkingclient.NewForConfigAndClient(core, transport)
	if err != nil {
		return none, fmt.Errorf("make API client: %w", err)
	}
	policyClient, err := newPolicyClient(cfg, transport)
	if err != nil {
		return none, err
	}
	rbacClient, err := rbacclient.NewForConfigAndClient(core, transport)
	if err != nil {
		return none, fmt.Errorf("make API client: %w", err)
	}
	return clients{
		rbac: rbacClient.RESTClient(),
		core: coreClient, discovery: discoveryClient, network: networkClient, gateway: gatewayClient, networking: networkingClient,
		policy: policyClient,
	}, nil
}

// newClient gives a client for the kinds of one version, which install makes known; what names them in errors.
func newClient(
	cfg *rest.Config, transport *http.Client, what string, version schema.GroupVersion, install func(*runtime.Scheme) error,
) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := install(scheme); err != nil {
		return nil, fmt.Errorf("register %s: %w", what, err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &version
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(cfg, transport)
	if err != nil {
		return nil, fmt.Errorf("make %s client: %w", what, err)
	}
	return client, nil
}
