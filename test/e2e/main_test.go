//go:build e2e

// Package e2e tests Atoll on a real cluster: a sandbox of three nodes with the real kubelet, containerd, OVN and
// Open vSwitch. All tests share one sandbox, which has a name and a directory of its own, so that it disturbs no
// demo. It is made anew and removed at the end, and what it leaves behind fails the run.
//
// Tests that kill, count or damage what all share run first and one by one; those that keep to Networks of their own
// run side by side after them (t.Parallel).
//
//	go test -tags e2e ./test/e2e            needs root and bin/ (make build)
//	ATOLL_E2E_KEEP=1 go test -tags e2e ...  leaves the sandbox running, and uses it again
//	ATOLL_E2E_BIN=DIR go test -tags e2e ... takes the programs from another directory than bin/
//	ATOLL_E2E_NAME=NAME go test -tags e2e . names the sandbox, so that two may run beside each other
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/matrix"
)

const (
	sandboxName = "atolle2e"
	// stateBase, with the sandbox's name, is its directory.
	stateBase = "/var/lib/atoll-sandbox-"
	example   = "docs/examples/two-networks"
	selector  = "example=two-networks"
	// upWithin is long: a cold cache is filled first.
	upWithin   = 40 * time.Minute
	downWithin = 2 * time.Minute
)

// cluster is the sandbox that all tests share.
type cluster struct {
	options sandbox.Options
	root    string
	box     *sandbox.Sandbox
	config  *rest.Config
	clients ready.Clients
	exec    matrix.Exec
	nb      *northbound
}

// env is set by TestMain before any test runs.
var env *cluster

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	bin := cmp.Or(os.Getenv("ATOLL_E2E_BIN"), filepath.Join(root, "bin"))
	name := cmp.Or(os.Getenv("ATOLL_E2E_NAME"), sandboxName)
	options := sandbox.Options{
		Name: name, State: stateBase + name, Source: root, Bin: bin, Program: filepath.Join(bin, "atoll-sandbox"),
	}
	keep := os.Getenv("ATOLL_E2E_KEEP") != ""
	if !keep {
		if err := removeAll(options); err != nil {
			return 1, err
		}
		defer func() {
			if downErr := removeAll(options); err == nil {
				err = downErr
			}
		}()
	}
	upCtx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	if env, err = start(upCtx, options, root); err != nil {
		return 1, err
	}
	defer env.nb.close()
	code = m.Run()
	if err := env.crashes(); err != nil {
		fmt.Println(err)
		code = 1
	}
	if code != 0 {
		env.printLogs()
	}
	return code, nil
}

// crashes reports the first daemon of Atoll's own that has panicked: the next one takes over so quickly that no test
// need notice.
func (c *cluster) crashes() error {
	for name, path := range c.logs() {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, word := range []string{"\npanic: ", "\nfatal error: "} {
			if at := strings.Index(string(text), word); at >= 0 {
				return fmt.Errorf("%s has crashed:\n%s", name, text[at:min(len(text), at+logTail)])
			}
		}
	}
	return nil
}

// logs are the files into which Atoll's own daemons write.
func (c *cluster) logs() map[string]string {
	logs := map[string]string{"atoll-controller": c.box.LogPath(sandbox.Central, "atoll-controller")}
	for _, node := range c.box.Nodes() {
		logs["atoll-agent of "+node] = c.box.LogPath(node, "atoll-agent")
	}
	return logs
}

// logTail is how much of a log is printed after a failure, in bytes.
const logTail = 6000

// printLogs prints the ends of the logs of Atoll's own daemons, which go with the sandbox.
func (c *cluster) printLogs() {
	for name, path := range c.logs() {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("\n== the end of the log of %s\n%s\n", name, text[max(0, len(text)-logTail):])
	}
}

// removeAll takes the sandbox down, twice, and fails if anything is left.
func removeAll(options sandbox.Options) error {
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), downWithin)
		err := sandbox.Down(ctx, options, os.Stdout)
		cancel()
		if err != nil {
			return err
		}
		left, err := sandbox.Leftovers(options)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("down left behind: %q", left)
		}
	}
	return nil
}

// start brings up the sandbox with the example in it.
func start(ctx context.Context, options sandbox.Options, root string) (*cluster, error) {
	box, err := sandbox.Up(ctx, options, os.Stdout)
	if err != nil {
		return nil, err
	}
	c := &cluster{options: options, root: root, box: box}
	if c.config, err = box.RESTConfig(); err != nil {
		return nil, err
	}
	c.config.QPS = -1
	if c.clients, err = ready.NewClients(c.config); err != nil {
		return nil, err
	}
	if c.exec, err = matrix.NewExec(c.config, c.clients.Kube); err != nil {
		return nil, err
	}
	if c.nb, err = dialNorthbound(ctx, box.NBAddress()); err != nil {
		return nil, err
	}
	if out, err := c.program(ctx, "kubectl", "apply", "--server-side", "-f", example).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("apply the example: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	last := ""
	return c, c.clients.Wait(ctx, []string{"red", "blue"}, []string{"red", "blue"}, func(r ready.Report) {
		if s := r.String(); s != last {
			fmt.Println(s)
			last = s
		}
	})
}

// program is a call of atoll-sandbox as a user makes it, from the root of the repository.
func (c *cluster) program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.options.Program, append([]string{"--state=" + c.options.State}, args...)...)
	cmd.Dir = c.root
	return cmd
}
