package sandbox

import (
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// podInterfaces begins the names of the interfaces by which packets of pods come to a node's own network: those of the
// default Network, and the node's ends of the portholes.
const podInterfaces = "atoll"

// proxyConfig renders a node's KubeProxyConfiguration.
//
// A packet to a Service comes from a pod if it comes by an interface of Atoll's. (A range of addresses would not do:
// kube-proxy takes one of each family, and the pods' are two, the default Network's and the faces.)
func proxyConfig(r record, n node) ([]byte, error) {
	config := map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"hostnameOverride": n.name,
		"clientConnection": map[string]any{"kubeconfig": r.layout().kubeconfig("kube-proxy")},
		"detectLocalMode":  "InterfaceNamePrefix",
		"detectLocal":      map[string]any{"interfaceNamePrefix": podInterfaces},
		// A node serves node ports on its InternalIP, as kube-proxy's nftables mode does by default.
		"nodePortAddresses": []string{"primary"},
		// These values are the whole machine's; zero leaves them as they are.
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
		// Root may lack CAP_SYS_RESOURCE, and then lowering it fails.
		"oomScoreAdj": 0,
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("render kube-proxy configuration: %w", err)
	}
	return data, nil
}

// proxyDaemon is held until the API serves. It comes after the kubelet, since it wants to know the node's addresses.
func proxyDaemon(r record, n node) place.DaemonSpec {
	return place.DaemonSpec{
		Name: "kube-proxy",
		Argv: []string{
			filepath.Join(r.Parts.Kubernetes, "kube-proxy"),
			"--config=" + r.layout().in(n.name, "kube-proxy.yaml"),
		},
		After: []string{"kubelet"},
		Ready: place.Check{URL: "http://127.0.0.1:10256/healthz"},
		Held:  true,
	}
}
