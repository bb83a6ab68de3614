// Package kind looks at dist/kind, which cannot be tried where there is no Docker: its file against kind's own types, and the
// commands of docs/install.md against what they name.
package kind

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/atoll-net/atoll/pkg/cli"
	"github.com/atoll-net/atoll/pkg/cli/install"
	"github.com/atoll-net/atoll/test/docs"
)

const (
	root = "../.."
	// config is named from the root of the repository, as in the commands.
	config = "dist/kind/cluster.yaml"
	page   = "docs/install.md"
)

func cluster(t *testing.T) v1alpha4.Cluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// parse reads a cluster of kind's, and takes no field that kind does not know.
func parse(text []byte) (c v1alpha4.Cluster, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err = decoder.Decode(&c)
	return c, err
}

// TestConfig: kind knows each field, and the cluster is one in which Atoll can be installed.
func TestConfig(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	if c.APIVersion != "kind.x-k8s.io/v1alpha4" || c.Kind != "Cluster" {
		t.Errorf("it is %s %s", c.APIVersion, c.Kind)
	}
	if !c.Networking.DisableDefaultCNI {
		t.Error("it has kind's own network plugin")
	}
	if c.Networking.KubeProxyMode == v1alpha4.ProxyMode("none") || c.Networking.KubeProxyMode == v1alpha4.IPVSProxyMode {
		t.Errorf("kube-proxy's mode is %s", c.Networking.KubeProxyMode)
	}
	if _, err := parse([]byte("kind: Cluster\nnetworking: {disableDefaultCni: true}\n")); err == nil {
		t.Error("a field that kind does not know is taken")
	}
	versions := map[int]bool{}
	for _, patch := range c.ContainerdConfigPatches {
		var settings struct {
			Version int
			Plugins map[string]struct {
				Disable bool
				Timeout string `toml:"plugin_request_timeout"`
			}
		}
		if told, err := toml.Decode(patch, &settings); err != nil || len(told.Undecoded()) > 0 {
			t.Fatalf("%v, not known: %v", err, told.Undecoded())
		}
		nri, found := settings.Plugins["io.containerd.nri.v1.nri"]
		if versions[settings.Version] = true; !found || nri.Disable || nri.Timeout == "" {
			t.Errorf("NRI is not on: %+v", settings)
		}
	}
	// kind leaves out a patch of another version than its containerd's file has, and does not say so. Both versions call the plugin the same.
	if !versions[2] || !versions[3] {
		t.Errorf("NRI is switched on in files of versions %v", versions)
	}
}

// TestCommands: the commands of the page make this cluster, load the images that make images makes, and install an overlay that
// fits its nodes and its ranges.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "## In kind")
	section, _, closed := strings.Cut(after, "\n## ")
	if !found || !closed {
		t.Fatalf("%s has no section about kind", page)
	}
	var commands []string
	for _, one := range docs.Commands(page, section) {
		if !one.Other {
			t.Errorf("%q cannot be run here: it must be marked", one.Text)
		}
		commands = append(commands, one.Text)
	}
	want := []string{
		"kind create cluster --config " + config,
		"kind load image-archive --name " + c.Name + " bin/images/atoll.tar bin/images/ovn.tar",
	}
	for _, one := range want {
		if !slices.Contains(commands, one) {
			t.Errorf("%s does not say %q; it says %q", page, one, commands)
		}
	}
	at := slices.IndexFunc(commands, func(one string) bool { return strings.HasPrefix(one, "bin/atoll install ") })
	if at < 0 {
		t.Fatalf("%s does not install: %q", page, commands)
	}
	manifests := rendered(t, strings.Fields(commands[at])[1:])
	for _, one := range []string{c.Networking.PodSubnet, c.Networking.ServiceSubnet} {
		if _, err := netip.ParsePrefix(one); err != nil || !strings.Contains(manifests, one) {
			t.Errorf("what is installed does not know the range %q of the cluster", one)
		}
	}
	control := 0
	for _, n := range c.Nodes {
		if n.Role == v1alpha4.ControlPlaneRole {
			control++
		}
	}
	members := map[string]int{"single": 1, "ha": 3}
	for overlay, n := range members {
		if strings.Contains(commands[at], "--overlay "+overlay) && n != control {
			t.Errorf("%d control plane nodes for overlay %s", control, overlay)
		}
	}
	if !strings.Contains(commands[at], "--overlay ") || !slices.Contains(install.Overlays(), "single") {
		t.Errorf("%q names no overlay", commands[at])
	}
}

// rendered is what a command would apply; what it asks the cluster is given.
func rendered(t *testing.T, args []string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := cli.Command("atoll")
	cmd.SetArgs(append(args, "-o", "yaml", "--kubeconfig", "/nowhere/at/all", "--image-tag", "v1", "--service-cidrs", "10.96.0.0/12",
		"--dns-addresses", "10.96.0.10"))
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
