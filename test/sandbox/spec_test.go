package sandbox

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

func testRecord(t *testing.T) record {
	t.Helper()
	r := newRecord(Options{Name: "reef", Nodes: 3, State: t.TempDir(), Bin: "/opt/atoll", Program: "/opt/atoll/atoll-sandbox"})
	r.Parts = parts.Parts{Kubernetes: "/k", Containerd: "/c", Etcd: "/e/etcd", Runc: "/r/runc"}
	return r
}

func TestAddresses(t *testing.T) {
	n := nodeAt(3)
	if got := n.address(); got != netip.MustParseAddr("172.30.0.13") {
		t.Errorf("address is %s", got)
	}
	if got := n.tunnel(); got != netip.MustParsePrefix("172.31.0.13/24") {
		t.Errorf("tunnel address is %s", got)
	}
	if got := n.address6(); got != netip.MustParseAddr("fd00:172:30::d") {
		t.Errorf("IPv6 address is %s", got)
	}
	if last := nodeAt(maxNodes).address(); !nodeNet.Contains(last) || !last.Less(gateway()) {
		t.Errorf("the last node's address %s is outside %s or above the gateway's", last, nodeNet)
	}
}

// Every daemon must come after daemons that stand before it, or it would never start.
func TestDaemonsCanStart(t *testing.T) {
	r := testRecord(t)
	for _, spec := range []place.Spec{centralSpec(r), outsideSpec(r), nodeSpec(r, nodeAt(1))} {
		seen := map[string]bool{}
		for _, d := range spec.Daemons {
			for _, other := range d.After {
				if !seen[other] {
					t.Errorf("%s: %s comes after %s, which does not stand before it", spec.Name, d.Name, other)
				}
			}
			if seen[d.Name] {
				t.Errorf("%s: two daemons are called %s", spec.Name, d.Name)
			}
			if d.Ready == (place.Check{}) {
				t.Errorf("%s: nothing tells when %s is ready", spec.Name, d.Name)
			}
			seen[d.Name] = true
		}
		if spec.ID != r.ID {
			t.Errorf("%s: the place does not carry the sandbox's mark", spec.Name)
		}
	}
}

// TestNothingOfAtoll: Atoll, OVN and Open vSwitch run in pods alone, which atoll install makes.
func TestNothingOfAtoll(t *testing.T) {
	r := testRecord(t)
	for _, spec := range []place.Spec{centralSpec(r), nodeSpec(r, nodeAt(1))} {
		for _, d := range spec.Daemons {
			if name := filepath.Base(d.Argv[0]); d.Argv[0] != r.Options.Program &&
				(strings.HasPrefix(name, "atoll") || strings.HasPrefix(name, "ov")) {
				t.Errorf("%s has %s: %q", spec.Name, d.Name, d.Argv)
			}
		}
	}
}

// Nothing of the control plane may listen on all addresses but the API server, which asks for certificates.
func TestListeners(t *testing.T) {
	for _, d := range centralSpec(testRecord(t)).Daemons {
		for _, argument := range d.Argv {
			if strings.Contains(argument, "0.0.0.0") {
				t.Errorf("%s listens by %s", d.Name, argument)
			}
		}
	}
}

func TestKubeletConfig(t *testing.T) {
	r := testRecord(t)
	roots := map[string]bool{}
	for _, n := range nodesUpTo(3) {
		data, err := kubeletConfig(r, n)
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			CgroupRoot     string `json:"cgroupRoot"`
			FailCgroupV1   *bool  `json:"failCgroupV1"`
			Authentication struct {
				Anonymous struct {
					Enabled bool `json:"enabled"`
				} `json:"anonymous"`
			} `json:"authentication"`
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		if config.FailCgroupV1 == nil || *config.FailCgroupV1 || config.Authentication.Anonymous.Enabled {
			t.Errorf("configuration of %s is %s", n.name, data)
		}
		roots[config.CgroupRoot] = true
	}
	if len(roots) != 3 || !roots["/reef/n2"] {
		t.Errorf("cgroup roots are %v, want one per node", roots)
	}
}

// TestPlacesHaveCgroups: a node's daemons are beside its kubelet's kubepods, in the hierarchy that gives out processor time, and
// in version 2, where a cgroup with others below it has no processes of its own.
func TestPlacesHaveCgroups(t *testing.T) {
	r := testRecord(t)
	for want, spec := range map[string]place.Spec{
		"reef/central": centralSpec(r), "reef/outside": outsideSpec(r), "reef/n2/system": nodeSpec(r, nodeAt(2)),
	} {
		if got, err := filepath.Rel(processorRoot(), spec.Cgroup); err != nil || got != want {
			t.Errorf("%s: processes are in %s (%v), want %s", spec.Name, got, err, want)
		}
	}
	if root := processorRoot(); !slices.Contains(cgroupRoots(cgroupDir), root) {
		t.Errorf("processor time is given out below %s", root)
	}
}

// kube-proxy must leave the machine's own values alone, and guess nothing about pods' addresses.
func TestProxyConfig(t *testing.T) {
	data, err := proxyConfig(testRecord(t), nodeAt(2))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Mode             string         `json:"mode"`
		HostnameOverride string         `json:"hostnameOverride"`
		DetectLocalMode  string         `json:"detectLocalMode"`
		ClusterCIDR      string         `json:"clusterCIDR"`
		Conntrack        map[string]any `json:"conntrack"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if config.Mode != "nftables" || config.HostnameOverride != "n2" || config.DetectLocalMode != "InterfaceNamePrefix" ||
		config.ClusterCIDR != "" {
		t.Errorf("configuration is %s", data)
	}
	for _, name := range []string{"maxPerCore", "min", "tcpEstablishedTimeout", "tcpCloseWaitTimeout"} {
		if value := fmt.Sprint(config.Conntrack[name]); value != "0" && value != "0s" {
			t.Errorf("it would set %s to %s, for the whole machine", name, value)
		}
	}
	for _, name := range []string{model.NodeInterface, model.EdgeInterface} {
		if !strings.HasPrefix(name, podInterfaces) {
			t.Errorf("packets of pods that come by %s would count as foreign", name)
		}
	}
}

// The outside must know of no way to a pod: what leaves the cluster unmasqueraded gets no answer.
func TestOutside(t *testing.T) {
	zone := string(outsideFiles(testRecord(t))["root.zone"])
	records := map[string]bool{}
	for line := range strings.Lines(zone) {
		records[strings.Join(strings.Fields(line), " ")] = true
	}
	addresses := OutsideAddresses()
	for _, want := range []string{
		"www.outside.test. 3600 IN A " + addresses[0].String(),
		"www.outside.test. 3600 IN AAAA " + addresses[1].String(),
	} {
		if !records[want] {
			t.Errorf("the zone lacks %s:\n%s", want, zone)
		}
	}
	for _, address := range []netip.Addr{outsideServer, outsideServer6, outsideDNS, outsideDNS6} {
		if nodeNet.Contains(address) || nodeNet6.Contains(address) {
			t.Errorf("%s is reached without the gateway", address)
		}
	}
}

func TestContainerdConfigNamesParts(t *testing.T) {
	config := string(containerdConfig(testRecord(t)))
	for _, want := range []string{
		parts.PauseImage, `BinaryName = "/r/runc"`, "restrict_oom_score_adj = true", `socket_path = "/run/nri/nri.sock"`,
		"SystemdCgroup = false", `"io.containerd.timeout.task.state" = "60s"`,
	} {
		if !strings.Contains(config, want) {
			t.Errorf("configuration lacks %s:\n%s", want, config)
		}
	}
}

func TestUserspaceBridges(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	writeExecutable(t, tool, "#!/bin/sh\necho \"$@\"\n")
	for arguments, want := range map[string]string{
		"--timeout=20 --may-exist add-br br-x": "--timeout=20 --may-exist add-br br-x -- set bridge br-x datapath_type=netdev",
		"--may-exist add-port br-x eth1":       "--may-exist add-port br-x eth1",
	} {
		out, err := userspace(tool, strings.Fields(arguments)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%q became %q, want %q", arguments, got, want)
		}
	}
}

func TestPollTellsWhatItWaitedFor(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	if err := poll(t.Context(), pollEvery, "the tide", never); err == nil || !strings.Contains(err.Error(), "the tide") {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := poll(ctx, daemonLimit, "the tide", never); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error after cancelling is %v", err)
	}
}
