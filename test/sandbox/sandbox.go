// Package sandbox makes a real Kubernetes cluster with OVN on one machine, out of namespaces.
//
// In flow Options; out flows a Sandbox, a handle that tests, the demo and atoll-sandbox use. One place is the
// control plane: etcd, Kubernetes' three servers, OVN's databases, northd and atoll-controller. The others are nodes,
// each with its own containerd, kubelet, Open vSwitch, ovn-controller and atoll-agent. See docs/contributing/sandbox.md.
//
//	Options -> parts (built, downloaded, cached) -> record (identity, written first)
//	        -> files (certificates, configurations, empty databases) -> namespaces, cgroups
//	        -> places (first processes, which start the daemons) -> API objects -> Ready
//
// What must stay true: the machine's own network namespace, mounts and sysctls are never changed; everything that
// exists outside the cache can be found again by the sandbox's name and mark alone (Leftovers) and is removed by
// Down, also after a crash at any point; nothing else is ever ended or removed.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Central is the place of the control plane. The others are Outside and the nodes n1, n2, ...
const Central = "central"

// Daemon is what a place's supervisor knows about one of its daemons.
type Daemon = place.Daemon

// Sandbox is a handle on a sandbox that was started, in this process or another. It holds no connection:
// all its methods work from any process of the machine's root, and again after any part was restarted.
type Sandbox struct{ record record }

// Open returns the sandbox whose state is in the directory, or an error if none was started there.
func Open(stateDir string) (*Sandbox, error) {
	if stateDir == "" {
		stateDir = DefaultState
	}
	r, err := loadRecord(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open sandbox: none in %s (atoll-sandbox up makes one)", stateDir)
	}
	if err != nil {
		return nil, err
	}
	return &Sandbox{r}, nil
}

// Nodes returns the names of the nodes, n1 first.
func (s *Sandbox) Nodes() []string { return s.record.nodes() }

// Places returns the names of all places: the control plane, the outside, the nodes.
func (s *Sandbox) Places() []string { return s.record.places() }

// LogPath is the file with what a daemon printed.
func (s *Sandbox) LogPath(place, daemon string) string { return s.record.layout().log(place, daemon) }

// PodLogs is the directory, on the machine, of the logs of a node's pods (kubelet's podLogsDir).
func (s *Sandbox) PodLogs(node string) string { return s.record.layout().in(node, "pod-logs") }

// FirstProcess is the number of a place's first process, as the machine counts them. Through /proc/NUMBER/root the place's
// files are reached.
func (s *Sandbox) FirstProcess(ctx context.Context, place string) (int, error) {
	client, err := s.supervisor(place)
	if err != nil {
		return 0, err
	}
	return client.PID(ctx)
}

// Kubeconfig is the administrator's client configuration. The address in it is reached from the control plane's
// network namespace (Namespace) only.
func (s *Sandbox) Kubeconfig() string { return s.record.layout().kubeconfig("admin") }

// Namespace is the name of a place's network namespace, as ip-netns(8) knows it.
func (s *Sandbox) Namespace(place string) string { return namespace(s.record.Options.Name, place) }

// KubectlEnvironment is what kubectl is given for the sandbox, as environment variables: the administrator's client
// configuration, and a place for what it remembers that goes with the sandbox.
func (s *Sandbox) KubectlEnvironment() []string {
	return []string{"KUBECONFIG=" + s.Kubeconfig(), "KUBECACHEDIR=" + s.record.layout().kubectlCache()}
}

// Bare reports whether the sandbox was made without a network, for Atoll to be installed in it.
func (s *Sandbox) Bare() bool { return s.record.Options.Bare }

// Path is the search path with the sandbox's own programs first.
func (s *Sandbox) Path() string { return s.record.Parts.Path() }

// Daemons returns the daemons of a place, with their process ids as the machine counts them.
func (s *Sandbox) Daemons(ctx context.Context, place string) ([]Daemon, error) {
	client, err := s.supervisor(place)
	if err != nil {
		return nil, err
	}
	daemons, err := client.Daemons(ctx)
	if err != nil {
		return nil, err
	}
	first, err := client.PID(ctx)
	if err != nil {
		return nil, err
	}
	outside := childrenOf(first)
	for i := range daemons {
		daemons[i].PID = outside[daemons[i].PID]
	}
	return daemons, nil
}

// Signal sends a signal to a daemon.
func (s *Sandbox) Signal(ctx context.Context, name, daemon string, number syscall.Signal) error {
	return s.tell(name, func(c place.Client) error { return c.Signal(ctx, daemon, number) })
}

// Stop ends a daemon, which stays down until Start.
func (s *Sandbox) Stop(ctx context.Context, name, daemon string) error {
	return s.tell(name, func(c place.Client) error { return c.Stop(ctx, daemon) })
}

// Start starts a daemon that was stopped. It does not wait until the daemon serves.
func (s *Sandbox) Start(ctx context.Context, name, daemon string) error {
	return s.tell(name, func(c place.Client) error { return c.Start(ctx, daemon) })
}

// Restart stops a daemon and starts it again.
func (s *Sandbox) Restart(ctx context.Context, name, daemon string) error {
	return s.tell(name, func(c place.Client) error { return c.Restart(ctx, daemon) })
}

// Exec runs a command in all namespaces of a place and returns what it wrote to its standard output. The error
// carries its standard error.
func (s *Sandbox) Exec(ctx context.Context, place string, argv ...string) ([]byte, error) {
	cmd, err := s.Command(ctx, place, argv...)
	if err != nil {
		return nil, err
	}
	// What was started in the place ends with the call, not only the program that took it there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return stdout.Bytes(), fmt.Errorf("run %s on %s: %w: %s", strings.Join(argv, " "), place, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// Command prepares a command that runs in all namespaces of a place, with the environment of its daemons.
func (s *Sandbox) Command(ctx context.Context, place string, argv ...string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("run command: none given")
	}
	client, err := s.supervisor(place)
	if err != nil {
		return nil, err
	}
	pid, err := client.PID(ctx)
	if err != nil {
		return nil, err
	}
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	cmd.Env = append(environment(s.record), "KUBECONFIG="+s.Kubeconfig())
	for _, name := range []string{"TERM", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd, nil
}

func (s *Sandbox) supervisor(name string) (place.Client, error) {
	if slices.Contains(s.Places(), name) {
		return place.Client{Socket: s.record.layout().control(name)}, nil
	}
	return place.Client{}, fmt.Errorf("find place %q: there are %s", name, strings.Join(s.Places(), ", "))
}

// tell has the supervisor of a place do something.
func (s *Sandbox) tell(name string, what func(place.Client) error) error {
	client, err := s.supervisor(name)
	if err != nil {
		return err
	}
	return what(client)
}

// childrenOf maps the numbers which the children of a place's first process have in the place to those that they
// have here.
func childrenOf(first int) map[int]int {
	outside := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return outside
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if err == nil && parentPID(string(status)) == first {
			outside[innermostPID(string(status))] = pid
		}
	}
	return outside
}

func parentPID(status string) int {
	for line := range strings.Lines(status) {
		if number, ok := strings.CutPrefix(line, "PPid:"); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(number))
			return pid
		}
	}
	return 0
}
