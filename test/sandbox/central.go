package sandbox

import (
	"fmt"
	"path/filepath"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Directories that the places see but change only for themselves.
var privateDirs = []string{"/etc", "/opt", "/var/lib", "/var/log"}

// runDirs are made on each place's own /run.
var runDirs = []string{"/run/tmp", "/run/lock", "/run/openvswitch", "/run/ovn", "/run/atoll"}

// centralSpec describes the control plane.
func centralSpec(r record) place.Spec {
	l := r.layout()
	return place.Spec{
		ID: r.ID, Name: Central, State: l.state, Control: l.control(Central), Logs: l.logs(),
		Cgroup:      filepath.Join(processorRoot(), daemonsCgroup(r, Central)),
		Overlays:    privateDirs,
		Directories: runDirs,
		Environment: environment(r),
		Daemons:     kubernetesDaemons(r),
	}
}

// environment is what all daemons of all places get, and what commands run in a place get too.
func environment(r record) []string {
	return []string{
		"PATH=" + r.Parts.Path(),
		"HOME=/root",
		"TMPDIR=/run/tmp",
		"KUBECACHEDIR=" + r.layout().kubectlCache(),
		"OVS_RUNDIR=/run/openvswitch",
		"OVN_RUNDIR=/run/ovn",
		// Kubernetes' programs make much garbage. A developer's machine has more memory than processors.
		"GOGC=400",
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
