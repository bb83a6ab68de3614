//go:build integration

package nri

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runPlugin runs a plugin beside a containerd until the test ends or stop is called. Pods whose UID begins with "face"
// have faces.
func runPlugin(c *containerd, change func(*Config)) (p *Plugin, stop func()) {
	c.tb.Helper()
	config := Config{
		Socket:     nriSocket,
		KubeletDir: filepath.Join(c.dir, "kubelet"),
		HostsDir:   "/run/atoll/hosts",
		Lookup: func(pod Pod) (Known, bool) {
			return Known{UID: pod.UID, Pairs: testPairs()}, pod.Namespace == "red" && strings.HasPrefix(pod.UID, "face")
		},
	}
	if change != nil {
		change(&config)
	}
	p, err := New(config, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(c.tb.Output(), nil)))
	must(c.tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	tb := c.tb
	stop = func() {
		cancel()
		must(tb, <-done)
		done <- nil
	}
	tb.Cleanup(stop)
	return p, stop
}

// connect waits until the runtime has taken the plugin in.
func (p *Plugin) connect(c *containerd) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), testTimeout)
	defer cancel()
	if !p.Await(ctx) {
		c.tb.Fatal("the plugin was not taken in")
	}
}

// kubeletHosts writes the hosts file that kubelet writes whenever it makes a container, and mounts it.
func (p *pod) kubeletHosts() *cri.Mount {
	p.tb.Helper()
	dir := filepath.Join(p.dir, "kubelet", "pods", p.config.GetMetadata().GetUid())
	must(p.tb, os.MkdirAll(dir, 0o750))
	file := filepath.Join(dir, hostsName)
	must(p.tb, os.WriteFile(file, []byte(kubeletHostsHead+"100.64.1.5\tweb\nfd64::1:5\tweb\n"), 0o644))
	return &cri.Mount{ContainerPath: "/etc/hosts", HostPath: file}
}

// seen is what a program sees in its container.
type seen struct {
	Args  []string
	Env   []string
	Hosts string
}

func parseSeen(tb testing.TB, text []byte) seen {
	tb.Helper()
	var s seen
	if err := json.Unmarshal(text, &s); err != nil {
		tb.Fatalf("read %q: %v", text, err)
	}
	// What the runtime adds by itself.
	s.Env = slices.DeleteFunc(s.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"HOME", "HOSTNAME", "PATH"}, name)
	})
	slices.Sort(s.Env)
	return s
}

// faces is what kubelet gives the container of a pod by its manifest's $(POD_IP).
func faces() (args, environment []string) {
	return []string{"stay", "--listen=http://100.64.1.5:80"},
		[]string{"POD_IP", "100.64.1.5", "POD_IPS", "100.64.1.5,fd64::1:5", "URL", "http://[fd64::1:5]:80/", "HOST_IP", "192.0.2.1"}
}

func ownSeen() seen {
	return seen{
		Args:  []string{"/shown", "stay", "--listen=http://100.64.9.9:80"},
		Env:   []string{"HOST_IP=192.0.2.1", "POD_IP=100.64.9.9", "POD_IPS=100.64.9.9,fd00:1::9", "URL=http://[fd00:1::9]:80/"},
		Hosts: kubeletHostsHead + "100.64.9.9\tweb\nfd00:1::9\tweb\n",
	}
}

func faceSeen() seen {
	return seen{
		Args:  []string{"/shown", "stay", "--listen=http://100.64.1.5:80"},
		Env:   []string{"HOST_IP=192.0.2.1", "POD_IP=100.64.1.5", "POD_IPS=100.64.1.5,fd64::1:5", "URL=http://[fd64::1:5]:80/"},
		Hosts: kubeletHostsHead + "100.64.1.5\tweb\nfd64::1:5\tweb\n",
	}
}

// sees launches a container as kubelet would, and compares what its program sees.
func (p *pod) sees(name string, want seen) (id string) {
	p.tb.Helper()
	args, environment := faces()
	config := p.container(name, args, environment, p.kubeletHosts())
	id = p.launch(config)
	if diff := cmp.Diff(want, parseSeen(p.tb, p.printed(config))); diff != "" {
		p.tb.Errorf("container %s sees (-want +got):\n%s", name, diff)
	}
	return id
}

func TestContainersSeeOwnAddresses(t *testing.T) {
	c := newContainerd(t)
	plugin, stop := runPlugin(c, nil)
	plugin.connect(c)

	t.Run("a pod with faces", func(t *testing.T) {
		p := c.newPod("face-a")
		first := p.sees("first", ownSeen())
		var asExecuted seen
		if asExecuted = parseSeen(t, p.exec(first, "/shown", "show")); !cmp.Equal(asExecuted.Env, ownSeen().Env) {
			t.Errorf("a program that is executed in the container sees %q", asExecuted.Env)
		}
		// Another container: kubelet writes its file anew.
		p.sees("second", ownSeen())
		if got := parseSeen(t, p.exec(first, "/shown", "show")).Hosts; got != ownSeen().Hosts {
			t.Errorf("when a second container is made, the first sees %q", got)
		}
	})

	t.Run("containers of a pod share the file", func(t *testing.T) {
		p := c.newPod("face-b")
		first, second := p.sees("first", ownSeen()), p.sees("second", ownSeen())
		if got := string(p.exec(first, "/shown", "append", "10.1.1.1 added")); got != "<nil>\n" {
			t.Fatalf("a container cannot write its hosts file: %s", got)
		}
		if got := parseSeen(t, p.exec(second, "/shown", "show")).Hosts; got != ownSeen().Hosts+"10.1.1.1 added\n" {
			t.Errorf("the other container sees %q", got)
		}
		p.sees("third", ownSeen())
	})

	t.Run("a container cannot fill the node", func(t *testing.T) {
		p := c.newPod("face-c")
		first := p.sees("first", ownSeen())
		if got := string(p.exec(first, "/shown", "flood")); !strings.Contains(got, "no space left") {
			t.Errorf("writing 4 MiB into the hosts file: %s", got)
		}
		info, err := os.Stat("/run/atoll/hosts/face-c/etc-hosts")
		must(t, err)
		if info.Size() > maxHosts {
			t.Errorf("the file has %d bytes", info.Size())
		}
		// It harms no other container, not even its own pod's next.
		p.sees("second", ownSeen())
	})

	t.Run("a pod without faces", func(t *testing.T) {
		p := c.newPod("flat-a")
		p.sees("first", faceSeen())
		if _, err := os.Stat("/run/atoll/hosts/flat-a"); err == nil {
			t.Error("a hosts file was made for it")
		}
	})

	t.Run("names that NRI takes for removals", func(t *testing.T) {
		p := c.newPod("face-d")
		config := p.container("first", []string{"show"}, []string{"A", "kept", "-A", "100.64.1.5"})
		p.launch(config)
		want := []string{"-A=100.64.1.5", "A=kept"}
		if diff := cmp.Diff(want, parseSeen(t, p.printed(config)).Env); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	})

	t.Run("a hosts file of the user's own", func(t *testing.T) {
		p := c.newPod("face-e")
		file := filepath.Join(c.dir, "hosts-of-the-user")
		must(t, os.WriteFile(file, []byte("100.64.1.5 mine\n"), 0o644))
		config := p.container("first", []string{"show"}, nil, &cri.Mount{ContainerPath: "/etc/hosts", HostPath: file})
		p.launch(config)
		if got := parseSeen(t, p.printed(config)).Hosts; got != "100.64.1.5 mine\n" {
			t.Errorf("it became %q", got)
		}
	})

	t.Run("sweep", func(t *testing.T) {
		p, q := c.newPod("face-f"), c.newPod("face-g")
		first := p.sees("first", ownSeen())
		q.sees("first", ownSeen())
		must(t, plugin.Sweep(func(uid string) bool { return uid == "face-g" }))
		left, err := os.ReadDir("/run/atoll/hosts")
		must(t, err)
		if len(left) != 1 || left[0].Name() != "face-g" {
			t.Errorf("left are %v, want that of face-g", left)
		}
		if got := parseSeen(t, p.exec(first, "/shown", "show")).Hosts; got != ownSeen().Hosts {
			t.Errorf("a container that still runs sees %q", got)
		}
	})
	stop()
	if plugin.Connected() {
		t.Error("connected after the end")
	}
}

// TestRestartsOfThePlugin: a container that starts while the plugin is away sees its pod's face. One that starts after the
// plugin, or the runtime, is back sees the pod's own address.
func TestRestartsOfThePlugin(t *testing.T) {
	c := newContainerd(t)
	first, stop := runPlugin(c, nil)
	first.connect(c)
	p := c.newPod("face-a")
	before := p.sees("before", ownSeen())

	// The plugin is away: the pod works, and sees its face.
	stop()
	p.sees("meanwhile", faceSeen())
	if got := parseSeen(t, p.exec(before, "/shown", "show")).Hosts; got != ownSeen().Hosts {
		t.Errorf("while the plugin is away, an older container sees %q", got)
	}
	plugin, _ := runPlugin(c, nil)
	plugin.connect(c)
	if got := testutil.ToFloat64(plugin.metrics.missed); got != 1 {
		t.Errorf("%v containers are said to see their face, want 1", got)
	}
	p.sees("after", ownSeen())

	// The runtime is away, and comes back.
	c.stop()
	c.await("the plugin sees that the runtime has gone", func(context.Context) bool { return !plugin.Connected() })
	c.start()
	plugin.connect(c)
	p.sees("later", ownSeen())
	if got := testutil.ToFloat64(plugin.metrics.missed); got != 1 {
		t.Errorf("after the runtime's restart %v containers are said to see their face, want 1", got)
	}
}

// TestSlowPlugin: a plugin that does not answer delays a container, and no more.
func TestSlowPlugin(t *testing.T) {
	c := newContainerd(t)
	var slow atomic.Bool
	release := make(chan struct{})
	plugin, _ := runPlugin(c, func(config *Config) {
		lookup := config.Lookup
		config.Lookup = func(pod Pod) (Known, bool) {
			if slow.Load() {
				<-release
			}
			return lookup(pod)
		}
	})
	plugin.connect(c)
	p := c.newPod("face-a")
	slow.Store(true)
	p.sees("waited for", faceSeen())
	slow.Store(false)
	close(release)
	// A runtime that does not know the failure policy has closed the connection.
	c.await("the plugin is asked again", func(context.Context) bool {
		args, environment := faces()
		id := p.launch(p.container("after", args, environment, p.kubeletHosts()))
		hosts := parseSeen(t, p.exec(id, "/shown", "show")).Hosts
		_, err := p.cri.RemoveContainer(t.Context(), &cri.RemoveContainerRequest{ContainerId: id})
		must(t, err)
		return hosts == ownSeen().Hosts
	})
}

// BenchmarkCreateContainer measures how long the runtime takes to make a container, with and without the plugin.
func BenchmarkCreateContainer(b *testing.B) {
	c := newContainerd(b)
	p := c.newPod("face-a")
	args, environment := faces()
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("plugin=%t", with), func(b *testing.B) {
			c := *c
			c.tb = b
			if with {
				plugin, _ := runPlugin(&c, nil)
				plugin.connect(&c)
			}
			for b.Loop() {
				b.StopTimer()
				config := p.container("c", args, environment, p.kubeletHosts())
				b.StartTimer()
				id := p.create(config)
				b.StopTimer()
				_, err := p.cri.RemoveContainer(b.Context(), &cri.RemoveContainerRequest{ContainerId: id})
				must(b, err)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkAnswer measures the plugin's own part: a container with a hundred variables, in a pod that has its file.
func BenchmarkAnswer(b *testing.B) {
	dir := b.TempDir()
	plugin, err := New(Config{
		KubeletDir: dir,
		HostsDir:   "/run/atoll/hosts-bench",
		Lookup:     func(pod Pod) (Known, bool) { return Known{UID: pod.UID, Pairs: testPairs()}, true },
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	must(b, err)
	b.Cleanup(func() { must(b, plugin.Sweep(func(string) bool { return false })) })
	file := filepath.Join(dir, "pods", "a", hostsName)
	must(b, os.MkdirAll(filepath.Dir(file), 0o755))
	must(b, os.WriteFile(file, []byte(kubeletHostsHead+"100.64.1.5\tweb\n"), 0o644))
	container := &api.Container{Args: []string{"prog"}, Mounts: []*api.Mount{{Destination: hostsFile, Source: file}}}
	for i := range 100 {
		container.Env = append(container.Env, fmt.Sprintf("REDIS_%d_SERVICE_HOST=10.96.0.%d", i, i))
	}
	container.Env = append(container.Env, "POD_IP=100.64.1.5")
	for b.Loop() {
		adjust, err := plugin.own(&api.PodSandbox{Uid: "a"}, container)
		if err != nil || len(adjust.GetMounts()) == 0 {
			b.Fatalf("adjustment %v: %v", adjust, err)
		}
	}
}
