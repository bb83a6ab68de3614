package sandbox

import (
	"fmt"
	"path/filepath"

	"github.com/atoll-net/atoll/pkg/sandbox/place"
)

// Directories that the places see but change only for themselves.
var privateDirs = []string{"/etc", "/opt", "/var/lib", "/var/log"}

// runDirs are made on each place's own /run.
var runDirs = []string{"/run/tmp", "/run/lock", "/run/openvswitch", "/run/ovn", "/run/atoll"}

// centralSpec describes the control plane.
func centralSpec(r record) place.Spec {
	l := r.layout()
	ovn := l.in(Central, "ovn")
	spec := place.Spec{
		ID: r.ID, Name: Central, State: l.state, Control: l.control(Central), Logs: l.logs(),
		Cgroup:      filepath.Join(processorRoot(), daemonsCgroup(r, Central)),
		Overlays:    privateDirs,
		Directories: runDirs,
		// The databases are where OVN's tools look for them, as well as in the state directory.
		Binds:       []place.Bind{{Source: ovn, Target: "/run/ovn"}},
		Environment: environment(r),
		Daemons:     kubernetesDaemons(r),
	}
	if r.Options.Bare {
		return spec
	}
	spec.Daemons = append(spec.Daemons, ovnDaemons(r)...)
	if !r.Options.WithoutAtoll {
		spec.Daemons = append(spec.Daemons, controllerDaemon(r))
	}
	return spec
}

// environment is what all daemons of all places get, and what commands run in a place get too.
func environment(r record) []string {
	return []string{
		"PATH=" + r.Parts.Path(),
		"HOME=/root",
		"TMPDIR=/run/tmp",
		"KUBECACHEDIR=" + r.layout().kubectlCache(),
		"OVS_RUNDIR=/run/openvswitch",
		"OVS_LOGDIR=/run/openvswitch",
		"OVS_DBDIR=/run/openvswitch",
		"OVN_RUNDIR=/run/ovn",
		"OVN_LOGDIR=/run/ovn",
		"OVN_DBDIR=/run/ovn",
	}
}

func kubernetesDaemons(r record) []place.DaemonSpec {
	l := r.layout()
	pki := func(file string) string { return filepath.Join(l.pki(), file) }
	program := func(name string) string { return filepath.Join(r.Parts.Kubernetes, name) }
	asUser := func(name string) []string {
		config := l.kubeconfig(name)
		return []string{"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config}
	}
	const etcdURL, etcdPeer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []place.DaemonSpec{
		centralRelay(r),
		{
			Name: "etcd",
			Argv: []string{
				r.Parts.Etcd,
				"--data-dir=" + l.in(Central, "etcd"),
				"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
				"--listen-peer-urls=" + etcdPeer, "--initial-advertise-peer-urls=" + etcdPeer,
				"--initial-cluster=default=" + etcdPeer,
				"--unsafe-no-fsync", // a sandbox does not outlive a crash of the machine
				"--log-level=warn",
			},
			Ready: place.Check{URL: etcdURL + "/health"},
		},
		{
			Name: "kube-apiserver",
			Argv: []string{
				program("kube-apiserver"),
				"--etcd-servers=" + etcdURL,
				fmt.Sprintf("--secure-port=%d", apiPort),
				"--advertise-address=" + centralAddress().String(),
				"--tls-cert-file=" + pki("kube-apiserver.crt"), "--tls-private-key-file=" + pki("kube-apiserver.key"),
				"--client-ca-file=" + pki("ca.crt"),
				"--authorization-mode=Node,RBAC",
				"--enable-admission-plugins=NodeRestriction",
				"--allow-privileged=true",
				"--service-cluster-ip-range=" + serviceNet.String() + "," + serviceNet6.String(),
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + pki("service-accounts.pub"),
				"--service-account-signing-key-file=" + pki("service-accounts.key"),
				"--kubelet-certificate-authority=" + pki("ca.crt"),
				"--kubelet-client-certificate=" + pki("kube-apiserver-kubelet-client.crt"),
				"--kubelet-client-key=" + pki("kube-apiserver-kubelet-client.key"),
				"--kubelet-preferred-address-types=InternalIP",
				"--requestheader-client-ca-file=" + pki("ca.crt"),
				"--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User",
				"--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
				"--proxy-client-key-file=" + pki("front-proxy-client.key"),
				// No kube-proxy is beside it.
				"--enable-aggregator-routing=true",
				"--egress-selector-config-file=" + l.in(Central, "egress.yaml"),
			},
			After: []string{"etcd", "relay"},
			Ready: place.Check{URL: fmt.Sprintf("https://127.0.0.1:%d/readyz", apiPort)},
		},
		{
			Name: "kube-controller-manager",
			Argv: append([]string{
				program("kube-controller-manager"),
				"--bind-address=127.0.0.1",
				"--leader-elect=false",
				"--use-service-account-credentials=true",
				"--flex-volume-plugin-dir=/run/tmp/volumeplugins", // its default lies in /usr, which is the machine's
				"--service-account-private-key-file=" + pki("service-accounts.key"),
				"--root-ca-file=" + pki("ca.crt"),
				"--cluster-signing-cert-file=" + pki("ca.crt"), "--cluster-signing-key-file=" + pki("ca.key"),
				"--kube-api-qps=200", "--kube-api-burst=400", // one cluster has this API server to itself
			}, asUser("kube-controller-manager")...),
			After: []string{"kube-apiserver"},
			Ready: place.Check{URL: "https://127.0.0.1:10257/healthz"},
		},
		{
			Name: "kube-scheduler",
			Argv: append([]string{
				program("kube-scheduler"), "--bind-address=127.0.0.1", "--leader-elect=false",
				"--kube-api-qps=200", "--kube-api-burst=400",
			}, asUser("kube-scheduler")...),
			After: []string{"kube-apiserver"},
			Ready: place.Check{URL: "https://127.0.0.1:10259/healthz"},
		},
	}
}

// ovnDaemons are the two databases and northd. Programs of the control plane use unix sockets; only the
// southbound database listens, for the nodes, on their network; and without Atoll the northbound one, too.
func ovnDaemons(r record) []place.DaemonSpec {
	l := r.layout()
	dir := l.in(Central, "ovn")
	program := r.Parts.OVN.Program
	database := func(short, socket string, more ...string) []string {
		return append([]string{
			program("ovsdb-server"),
			"-vconsole:info", "-vfile:off", "-vsyslog:off",
			"--remote=punix:" + socket,
			"--unixctl=" + filepath.Join(dir, "ovn"+short+"_db.ctl"),
			"--pidfile=" + filepath.Join(dir, "ovn"+short+"_db.pid"),
			filepath.Join(dir, "ovn"+short+"_db.db"),
		}, more...)
	}
	northdControl := filepath.Join(dir, "ovn-northd.ctl")
	var northbound []string
	if r.Options.WithoutAtoll {
		// For a controller that somebody installs: in a pod, on a node.
		northbound = append(northbound, fmt.Sprintf("--remote=ptcp:%d:%s", nbPort, centralAddress()))
	}
	return []place.DaemonSpec{
		{
			Name:   "ovn-nb",
			Argv:   database("nb", l.northbound(), northbound...),
			Ready:  place.Check{Socket: l.northbound()},
			Settle: [][]string{{program("ovn-nbctl"), "--db=unix:" + l.northbound(), "--timeout=10", "init"}},
		},
		{
			Name:   "ovn-sb",
			Argv:   database("sb", l.southbound(), fmt.Sprintf("--remote=ptcp:%d:%s", sbPort, centralAddress())),
			Ready:  place.Check{Socket: l.southbound()},
			Settle: [][]string{{program("ovn-sbctl"), "--db=unix:" + l.southbound(), "--timeout=10", "init"}},
		},
		{
			Name: "ovn-northd",
			Argv: []string{
				program("ovn-northd"),
				"-vconsole:info", "-vfile:off", "-vsyslog:off",
				"--ovnnb-db=unix:" + l.northbound(), "--ovnsb-db=unix:" + l.southbound(),
				"--unixctl=" + northdControl,
				"--pidfile=" + filepath.Join(dir, "ovn-northd.pid"),
			},
			After: []string{"ovn-nb", "ovn-sb"},
			Ready: place.Check{Socket: northdControl},
			Nice:  switchNice,
		},
	}
}

// controllerDaemon is held until the API has Atoll's types.
func controllerDaemon(r record) place.DaemonSpec {
	l := r.layout()
	return place.DaemonSpec{
		Name: "atoll-controller",
		Argv: []string{
			filepath.Join(r.Options.Bin, "atoll-controller"),
			"--kubeconfig=" + l.kubeconfig("atoll-controller"),
			"--nb-address=unix:" + l.northbound(),
			"--sb-address=unix:" + l.southbound(),
			"--scrape-address=" + centralAddress().String(),
			"--inspect-address=" + centralAddress().String(),
		},
		After: []string{"kube-apiserver", "ovn-nb"},
		Ready: place.Check{URL: "http://127.0.0.1:9410/healthz"},
		Held:  true,
	}
}
