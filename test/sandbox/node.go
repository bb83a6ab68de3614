package sandbox

import (
	"path/filepath"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Where a node's daemons meet, on the node's own /run.
const (
	switchSocket     = "/run/openvswitch/db.sock"
	containerdSocket = "/run/containerd/containerd.sock"
	nriSocket        = "/run/nri/nri.sock"
	nriPluginDir     = "/run/nri/plugins"
	nriConfDir       = "/run/nri/conf.d"
	// tunnelSocket is an abstract one, which says only that who listens is there.
	tunnelSocket = "@tunnels"
	cniConfDir   = "/etc/cni/net.d"
	cniBinDir    = "/opt/cni/bin"
	resolverFile = "/etc/resolv.conf"
)

// nodeDirs are the directories of a node which lie in the state: what is in them survives a restart of the
// daemons, may be large, or has to be on a real file system for overlayfs.
var nodeDirs = map[string]string{
	"kubelet":     "/var/lib/kubelet",
	"containerd":  "/var/lib/containerd",
	"cni-state":   "/var/lib/cni",
	"cni-conf":    cniConfDir,
	"cni-bin":     cniBinDir,
	"pod-logs":    "/var/log/pods",
	"openvswitch": "/etc/openvswitch",
	"atoll":       "/var/lib/atoll",
}

// kernelValues are machine-wide values that kubelet sets at its start (it calls them kernel defaults), with
// what it wants them to be. Each node gets files of its own for them.
var kernelValues = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// nodeSettings are what Kubernetes asks of a node's kernel: it forwards packets.
var nodeSettings = map[string]string{
	"net/ipv4/ip_forward":          "1",
	"net/ipv6/conf/all/forwarding": "1",
}

// nodeSpec describes a node.
func nodeSpec(r record, n node) place.Spec {
	l := r.layout()
	spec := place.Spec{
		ID: r.ID, Name: n.name, State: l.state, Control: l.control(n.name), Logs: l.logs(),
		Cgroup:      filepath.Join(processorRoot(), daemonsCgroup(r, n.name)),
		Overlays:    privateDirs,
		Directories: runDirs,
		Kernel:      kernelValues,
		Settings:    nodeSettings,
		Files:       map[string]string{resolverFile: "nameserver " + outsideDNS.String() + "\n"},
		Environment: environment(r),
	}
	for _, dir := range sortedKeys(nodeDirs) {
		spec.Binds = append(spec.Binds, place.Bind{Source: l.in(n.name, dir), Target: nodeDirs[dir]})
	}
	spec.Daemons = append(kubeletDaemons(r, n), tunnelDaemon(r, n))
	return spec
}

// tunnelDaemon keeps what carries tunnels on a node. Its switch is in a pod, and a new one has lost the interface.
func tunnelDaemon(r record, n node) place.DaemonSpec {
	return place.DaemonSpec{
		Name:  "tunnels",
		Argv:  []string{r.Options.Program, "bridges", n.tunnel().String()},
		Ready: place.Check{Socket: tunnelSocket},
	}
}

// housekeeping is how often a kubelet reads what each container uses: some thirty files of cgroups for each. Every 10 s, as is
// its default, is too often for several kubelets on one machine: when hundreds of pods come or go at once, hundreds of its
// threads wait for the locks that making and removing cgroups takes, and hold those up. Only metrics are older for it.
const housekeeping = "60s"

func kubeletDaemons(r record, n node) []place.DaemonSpec {
	l := r.layout()
	return []place.DaemonSpec{
		{
			Name:  "containerd",
			Argv:  []string{filepath.Join(r.Parts.Containerd, "containerd"), "--config=" + l.in(n.name, "containerd.toml")},
			Ready: place.Check{Socket: containerdSocket},
		},
		{
			Name: "kubelet",
			Argv: []string{
				filepath.Join(r.Parts.Kubernetes, "kubelet"),
				"--config=" + l.in(n.name, "kubelet.yaml"),
				"--kubeconfig=" + l.kubeconfig("kubelet-"+n.name),
				"--housekeeping-interval=" + housekeeping,
				"--hostname-override=" + n.name,
				"--node-ip=" + n.address().String() + "," + n.address6().String(),
			},
			After: []string{"containerd"},
			Ready: place.Check{URL: "http://127.0.0.1:10248/healthz"},
			Held:  true, // until the API serves; before, it would only wait longer and longer between its tries
		},
		proxyDaemon(r, n),
		nodeRelay(r, n),
	}
}
