package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// maxPods is how many pods a node takes. A pod costs about 20 MB of the machine's memory.
const maxPods = 250

// kubeletConfig renders a node's KubeletConfiguration.
func kubeletConfig(r record, n node) ([]byte, error) {
	pki := func(file string) string { return filepath.Join(r.layout().pki(), file) }
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": pki("ca.crt")},
		},
		"authorization":     map[string]any{"mode": "Webhook"},
		"tlsCertFile":       pki("kubelet-server-" + n.name + ".crt"),
		"tlsPrivateKeyFile": pki("kubelet-server-" + n.name + ".key"),
		"cgroupDriver":      "cgroupfs",
		// Two kubelets below one root would take each other's pods for leftovers.
		"cgroupRoot":    "/" + r.Options.Name + "/" + n.name,
		"failCgroupV1":  false,
		"failSwapOn":    false,
		"clusterDNS":    []string{clusterDNS.String()},
		"clusterDomain": "cluster.local",
		"resolvConf":    resolverFile,
		// Its default lies in /usr, which is the machine's.
		"volumePluginDir": "/var/lib/kubelet/volumeplugins",
		"podLogsDir":      "/var/log/pods",
		// The machine's memory and disk are everybody's: one node must not evict for what others use.
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
		// One machine's memory decides, not a default for whole machines.
		"maxPods": maxPods,
		// Tests kill programs again and again. By default the pause before a container is started again grows to 5 minutes.
		"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "2s"},
		// The images cannot be pulled again.
		"imageGCHighThresholdPercent": 100,
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("render kubelet configuration: %w", err)
	}
	return data, nil
}

// containerdConfig renders a node's containerd configuration, version 3.
func containerdConfig(r record) []byte {
	return fmt.Appendf(nil, `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = %q

# Nodes share this machine's processors: a container's process that gets none for 2 seconds, the default of the first, would fail what is
# asked of the container ("failed to load task: context deadline exceeded").
[timeouts]
  "io.containerd.timeout.task.state" = "60s"
  "io.containerd.timeout.shim.load" = "60s"
  "io.containerd.timeout.metrics.shimstats" = "60s"

# By it the agent tells containers their own addresses. Plugins that the machine has are nothing to a node.
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  disable_connections = false
  socket_path = %q
  plugin_path = %q
  plugin_config_path = %q
  # Nodes share this machine's processors: an agent that gets none for 2 seconds, the default, would be cut off, and the containers
  # made until it is back would see their faces.
  plugin_request_timeout = "10s"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q

[plugins.'io.containerd.cri.v1.runtime']
  # Root may lack CAP_SYS_RESOURCE, and then lowering oom_score_adj fails.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
    # Instead of a CNI plugin that would have to be installed for it.
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, containerdSocket, nriSocket, nriPluginDir, nriConfDir, parts.PauseImage, cniBinDir, cniConfDir, r.Parts.Runc)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
