//go:build integration

package nri

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// otherPlugin changes the very things that ours changes, before it.
type otherPlugin struct{}

func (otherPlugin) CreateContainer(
	_ context.Context, _ *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a := &api.ContainerAdjustment{}
	a.AddEnv("URL", "http://[fd64::1:5]:81/")
	a.SetArgs(append(c.GetArgs(), "--more=100.64.1.5"))
	return a, nil, nil
}

func TestAnotherPluginChangesTheSame(t *testing.T) {
	c := newContainerd(t)
	other, err := stub.New(otherPlugin{}, stub.WithPluginName("other"), stub.WithPluginIdx("50"), stub.WithSocketPath(nriSocket))
	must(t, err)
	must(t, other.Start(t.Context()))
	t.Cleanup(other.Stop)
	plugin, _ := runPlugin(c, nil)
	plugin.connect(c)
	want := ownSeen()
	want.Args = append(want.Args, "--more=100.64.9.9")
	want.Env[3] = "URL=http://[fd00:1::9]:81/"
	c.newPod("face-a").sees("first", want)
}

// TestPodThatInsists: by an annotation on the pod, and the runtime's validator, no container of it is made without the
// plugin.
func TestPodThatInsists(t *testing.T) {
	c := newContainerd(t)
	p := c.newPod("face-a", "required-plugins.noderesource.dev", "["+pluginName+"]")
	config := p.container("first", []string{"show"}, nil, p.kubeletHosts())
	_, err := p.cri.CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	if err == nil || !strings.Contains(err.Error(), pluginName) {
		t.Fatalf("a container was made without the plugin: %v", err)
	}
	plugin, _ := runPlugin(c, nil)
	plugin.connect(c)
	p.sees("second", ownSeen())
}

// TestMountsThatNobodyElseSees: where the runtime would not see the hosts files, containers keep kubelet's, and get the
// rest.
func TestMountsThatNobodyElseSees(t *testing.T) {
	c := newContainerd(t)
	const alone = "/run/alone"
	must(t, os.Mkdir(alone, 0o755))
	must(t, unix.Mount("tmpfs", alone, "tmpfs", 0, ""))
	must(t, unix.Mount("", alone, "", unix.MS_PRIVATE, ""))
	t.Cleanup(func() { must(t, unix.Unmount(alone, unix.MNT_DETACH)) })
	plugin, _ := runPlugin(c, func(config *Config) { config.HostsDir = filepath.Join(alone, "hosts") })
	plugin.connect(c)
	want := ownSeen()
	want.Hosts = faceSeen().Hosts
	c.newPod("face-a").sees("first", want)
}

func TestHostsDir(t *testing.T) {
	const path = "/run/atoll/hosts-alone"
	d, err := OpenHostsDir(path)
	must(t, err)
	kubelets := filepath.Join(t.TempDir(), "etc-hosts")
	must(t, os.WriteFile(kubelets, nil, 0o644))
	must(t, unix.Setxattr(kubelets, labelAttribute, []byte("system_u:object_r:container_file_t:s0:c1,c2"), 0))

	name, err := d.Write("a", hostsName, "first, and longer\n", kubelets)
	must(t, err)
	before, err := os.Stat(name)
	must(t, err)
	if _, err := d.Write("a", hostsName, "second\n", kubelets); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(name)
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file was replaced: containers that run keep the old one")
	}
	content, err := os.ReadFile(name)
	must(t, err)
	if string(content) != "second\n" || after.Mode() != 0o644 {
		t.Errorf("the file holds %q, mode %v", content, after.Mode())
	}
	label := make([]byte, 100)
	n, err := unix.Getxattr(name, labelAttribute, label)
	must(t, err)
	if got := string(label[:n]); got != "system_u:object_r:container_file_t:s0:c1,c2" {
		t.Errorf("SELinux label %q", got)
	}
	for _, uid := range []string{"", ".", "..", "../b", strings.Repeat("x", 256)} {
		if name, err := d.Write(uid, hostsName, "x", kubelets); err == nil {
			t.Errorf("UID %q made the file %s", uid, name)
		}
	}

	// Another process of the agent finds what there is.
	d, err = OpenHostsDir(path)
	must(t, err)
	removed, err := d.Sweep(func(string) bool { return false })
	must(t, err)
	left, err := os.ReadDir(path)
	must(t, err)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if removed != 1 || len(left) != 0 || strings.Contains(string(mounts), path) {
		t.Errorf("%d were removed; left are %v and the mounts\n%s", removed, left, mounts)
	}
}

func TestReadHosts(t *testing.T) {
	dir := t.TempDir()
	long, link, fifo := filepath.Join(dir, "long"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	must(t, os.WriteFile(long, make([]byte, maxHosts+1), 0o644))
	must(t, os.Symlink("/etc/passwd", link))
	must(t, unix.Mkfifo(fifo, 0o644))
	for _, name := range []string{long, link, fifo, filepath.Join(dir, "none")} {
		if content, err := readFile(name); err == nil {
			t.Errorf("readFile(%s) = %d bytes, want an error", name, len(content))
		}
	}
	must(t, os.WriteFile(long, []byte(kubeletHostsHead), 0o644))
	got, err := readFile(long)
	must(t, err)
	if diff := cmp.Diff(kubeletHostsHead, got); diff != "" {
		t.Error(diff)
	}
}
