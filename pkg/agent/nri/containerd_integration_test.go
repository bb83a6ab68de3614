//go:build integration

package nri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/test/wait"
)

// What the tests need of other projects: the directory of containerd's programs, and runc.
const (
	envContainerd = "ATOLL_CONTAINERD"
	envRunc       = "ATOLL_RUNC"
)

const (
	// testImage is the image of testdata/shown: it is what pods run, and what holds their namespaces.
	testImage        = "atoll.test/shown:1"
	containerdSocket = "/run/containerd/containerd.sock"
	nriSocket        = "/run/nri/nri.sock"
	// testTimeout bounds whatever is waited for.
	testTimeout = 30 * time.Second
)

// containerd is a container runtime of the tests' own, with NRI on.
type containerd struct {
	tb      testing.TB
	dir     string
	program string
	cmd     *exec.Cmd
	log     *os.File
	cri     cri.RuntimeServiceClient
}

// newContainerd starts containerd with the image imported.
func newContainerd(tb testing.TB) *containerd {
	tb.Helper()
	programs, runc := os.Getenv(envContainerd), os.Getenv(envRunc)
	if programs == "" || runc == "" {
		tb.Fatalf("%s must name the directory of containerd, and %s the program runc", envContainerd, envRunc)
	}
	tb.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	c := &containerd{tb: tb, dir: tb.TempDir(), program: filepath.Join(programs, "containerd")}
	config := fmt.Sprintf(`version = 3
root = %q
state = "/run/containerd"
[grpc]
  address = %q
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = %q
  plugin_path = "/run/nri/plugins"
  plugin_config_path = "/run/nri/conf.d"
  [plugins.'io.containerd.nri.v1.nri'.default_validator]
    enable = true
[plugins.'io.containerd.cri.v1.images']
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
`, filepath.Join(c.dir, "root"), containerdSocket, nriSocket, testImage, runc)
	must(tb, os.WriteFile(filepath.Join(c.dir, "config.toml"), []byte(config), 0o644))
	log, err := os.Create(filepath.Join(c.dir, "containerd.log"))
	must(tb, err)
	c.log = log
	conn, err := grpc.NewClient("unix://"+containerdSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(tb, err)
	tb.Cleanup(func() { must(tb, conn.Close()) })
	c.cri = cri.NewRuntimeServiceClient(conn)
	c.start()
	tb.Cleanup(func() {
		c.stop()
		if log, err := os.ReadFile(c.log.Name()); err == nil && tb.Failed() {
			tb.Logf("end of containerd's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	c.run(filepath.Join(programs, "ctr"), "--address="+containerdSocket, "-n", "k8s.io", "images", "import", "--local", c.archive())
	return c
}

// archive builds testdata/shown and packs it.
func (c *containerd) archive() string {
	c.tb.Helper()
	program := filepath.Join(c.dir, "shown")
	c.tb.Setenv("CGO_ENABLED", "0")
	c.run("go", "build", "-o", program, "./testdata/shown")
	archive := filepath.Join(c.dir, "shown.tar")
	must(c.tb, image.Write(archive, image.Image{Reference: testImage, Program: program, Name: "shown"}))
	return archive
}

// start starts containerd, and waits until it serves.
func (c *containerd) start() {
	c.tb.Helper()
	c.cmd = exec.Command(c.program, "--config="+filepath.Join(c.dir, "config.toml"))
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	must(c.tb, c.cmd.Start())
	c.await("containerd serves", func(ctx context.Context) bool {
		_, err := c.cri.Status(ctx, &cri.StatusRequest{}, grpc.WaitForReady(true))
		return err == nil
	})
}

// stop kills containerd: its containers run on.
func (c *containerd) stop() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// run runs a program to its end.
func (c *containerd) run(program string, args ...string) {
	c.tb.Helper()
	if out, err := exec.CommandContext(c.tb.Context(), program, args...).CombinedOutput(); err != nil {
		c.tb.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// await waits for a condition.
func (c *containerd) await(what string, holds func(context.Context) bool) {
	c.tb.Helper()
	wait.Eventually(c.tb, wait.Patience, what, func(ctx context.Context) error {
		if !holds(ctx) {
			return errors.New("it is not so")
		}
		return nil
	})
}

// pod is a sandbox, with what kubelet knows of it.
type pod struct {
	*containerd
	config *cri.PodSandboxConfig
	id     string
}

// newPod runs a pod's sandbox, with an annotation or none. It uses the node's network, since which network a pod has is
// no matter here.
func (c *containerd) newPod(uid string, annotation ...string) *pod {
	c.tb.Helper()
	logs := filepath.Join(c.dir, "logs", uid)
	must(c.tb, os.MkdirAll(logs, 0o755))
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Namespace: "red", Name: "web-" + uid, Uid: uid},
		LogDirectory: logs,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: cgroupParent,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER},
			},
		},
	}
	if len(annotation) == 2 {
		config.Annotations = map[string]string{annotation[0]: annotation[1]}
	}
	got, err := c.cri.RunPodSandbox(c.tb.Context(), &cri.RunPodSandboxRequest{Config: config})
	must(c.tb, err)
	p := &pod{containerd: c, config: config, id: got.GetPodSandboxId()}
	c.tb.Cleanup(p.remove)
	return p
}

func (p *pod) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	_, err := p.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
	must(p.tb, err)
	_, err = p.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
	must(p.tb, err)
}

// container is what kubelet would ask for.
func (p *pod) container(name string, args, environment []string, mounts ...*cri.Mount) *cri.ContainerConfig {
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name},
		Image:    &cri.ImageSpec{Image: testImage},
		Args:     args,
		Mounts:   mounts,
		LogPath:  name + ".log",
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
			NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	for i := 0; i+1 < len(environment); i += 2 {
		config.Envs = append(config.Envs, &cri.KeyValue{Key: environment[i], Value: []byte(environment[i+1])})
	}
	return config
}

// create makes a container and returns its ID.
func (p *pod) create(config *cri.ContainerConfig) string {
	p.tb.Helper()
	got, err := p.cri.CreateContainer(p.tb.Context(), &cri.CreateContainerRequest{
		PodSandboxId: p.id, Config: config, SandboxConfig: p.config,
	})
	must(p.tb, err)
	return got.GetContainerId()
}

// launch makes a container and starts it.
func (p *pod) launch(config *cri.ContainerConfig) string {
	p.tb.Helper()
	id := p.create(config)
	_, err := p.cri.StartContainer(p.tb.Context(), &cri.StartContainerRequest{ContainerId: id})
	must(p.tb, err)
	return id
}

// exec runs a program in a container and returns what it prints.
func (p *pod) exec(id string, command ...string) []byte {
	p.tb.Helper()
	got, err := p.cri.ExecSync(p.tb.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 10})
	must(p.tb, err)
	if got.GetExitCode() != 0 {
		p.tb.Fatalf("%q ended with %d: %s", command, got.GetExitCode(), got.GetStderr())
	}
	return got.GetStdout()
}

// printed is the first line that a container has printed.
func (p *pod) printed(config *cri.ContainerConfig) []byte {
	p.tb.Helper()
	var line []byte
	p.await("the container prints", func(context.Context) bool {
		// Each line is a time, a stream, a mark and the text.
		text, err := os.ReadFile(filepath.Join(p.config.GetLogDirectory(), config.GetLogPath()))
		if err != nil || !bytes.Contains(text, []byte("\n")) {
			return false
		}
		first, _, _ := bytes.Cut(text, []byte("\n"))
		fields := bytes.SplitN(first, []byte(" "), 4)
		line = fields[len(fields)-1]
		return true
	})
	return line
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
