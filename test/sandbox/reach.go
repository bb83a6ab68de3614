package sandbox

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// How the API server reaches what is in the cluster: kubelets by itself, pods and Services by a node. See package relay.

func relaySocket(l layout, place string) string { return l.in(place, "relay.sock") }

// nodeRelay connects from a node.
func nodeRelay(r record, n node) place.DaemonSpec {
	return relayDaemon(r, n.name)
}

// centralRelay is the one that the API server asks.
func centralRelay(r record) place.DaemonSpec {
	relay := relayDaemon(r, Central)
	relay.Argv = append(relay.Argv, "--near="+nodeNet.String())
	for _, name := range r.nodes() {
		relay.Argv = append(relay.Argv, "--through="+relaySocket(r.layout(), name))
	}
	return relay
}

func relayDaemon(r record, name string) place.DaemonSpec {
	socket := relaySocket(r.layout(), name)
	return place.DaemonSpec{
		Name:  "relay",
		Argv:  []string{r.Options.Program, "relay", socket},
		Ready: place.Check{Socket: socket},
	}
}

// egressConfig tells the API server to reach the cluster by the relay.
func egressConfig(l layout) ([]byte, error) {
	config := map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1",
		"kind":       "EgressSelectorConfiguration",
		"egressSelections": []any{map[string]any{
			"name": "cluster",
			"connection": map[string]any{
				"proxyProtocol": "HTTPConnect",
				"transport":     map[string]any{"uds": map[string]any{"udsName": relaySocket(l, Central)}},
			},
		}},
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("render egress configuration: %w", err)
	}
	return data, nil
}
