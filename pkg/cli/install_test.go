package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/cli/install"
)

// TestInstallPrintsTables compares what people read with testdata/install.txt.
func TestInstallPrintsTables(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	many := make([]install.Hanging, listedHanging+2)
	for i := range many {
		many[i] = install.Hanging{Object: fmt.Sprintf("Pod red/web-%d", i), Why: "it has its network from Atoll, on n1"}
	}
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error {
			return printChecks(w, []install.Check{
				{Name: "Kubernetes", Verdict: install.OK, Found: "v1.36.2"},
				{
					Name: "nodes' ranges", Verdict: install.Warn, Found: "none",
					Next: "no Service gets an external address until --node-cidrs names all by which nodes can be reached",
				},
				{
					Name: "other network plugins", Verdict: install.Refuse, Found: "Cilium: DaemonSet kube-system/cilium",
					Next: "remove it, and its files in /etc/cni/net.d of each node",
				},
			})
		},
		func(w io.Writer) error { return printHanging(w, many[:3]) },
		func(w io.Writer) error { return printHanging(w, many) },
		func(w io.Writer) error {
			return printOutcomes(w, []install.Outcome{
				{Object: "Namespace atoll-system", What: "created"},
				{Object: "DaemonSet atoll-system/atoll-agent", What: "changed"},
				{Object: "ClusterRole atoll-old", What: "pruned", Why: "this version has it no more"},
			})
		},
	} {
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out)
	}
	// Of the long list its end is enough.
	var short []string
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, "web-1") && !strings.Contains(line, "web-2") && !strings.Contains(line, "web-3") {
			short = append(short, line)
		}
	}
	got, file := strings.Join(short, ""), filepath.Join("testdata", "install.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestInstallPrintsManifests: with all values set, no cluster is asked.
func TestInstallPrintsManifests(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := Command("atoll")
	cmd.SetArgs([]string{
		"install", "-o", "yaml", "--kubeconfig", "/nowhere/at/all", "--image-tag", "v0.3.0", "--image-registry", "registry.example.com/atoll",
		"--service-cidrs", "10.96.0.0/12", "--dns-addresses", "10.96.0.10",
	})
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"image: registry.example.com/atoll/ovn:v0.3.0", "kind: AtollConfig", "applyset.kubernetes.io/part-of: applyset-",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed", want)
		}
	}
}
