// Package cluster is the sandbox of end-to-end tests, in which atoll install has installed Atoll, and what they do with it: make
// Networks, namespaces and pods that go when the test ends, wait, let a pod dial or send frames written by hand, read OVN's
// databases, and stop or kill daemons.
//
// Each package of tests runs on a sandbox of its own, which is made anew and removed at the end; what it leaves behind
// fails the run. All have the same name, so that packages run one after another (go test -p=1).
//
//	ATOLL_E2E_KEEP=1    leaves the sandbox running, and uses it again
//	ATOLL_E2E_BIN=DIR   takes atoll and atoll-sandbox from another directory than bin/
//	ATOLL_E2E_NAME=NAME names the sandbox, so that two may run beside each other
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/sandbox"
)

const (
	defaultName = "atolle2e"
	// stateBase, with the sandbox's name, is its directory.
	stateBase = "/var/lib/atoll-sandbox-"
	// upWithin is long: a cold cache is filled first.
	upWithin   = 40 * time.Minute
	downWithin = 2 * time.Minute
)

// Cluster is the sandbox that all tests of a package share.
type Cluster struct {
	Options sandbox.Options
	// Root is the repository's.
	Root    string
	Box     *sandbox.Sandbox
	Config  *rest.Config
	Clients ready.Clients
	Exec    matrix.Exec
	NB      *Northbound
	// turns are nodes whose own network a test's pod is on: a channel of one place for each.
	turns sync.Map
	// databases are where OVN's are reached; nil before Atoll is installed.
	databases *databases
	// sparing guards what Stop has changed in DaemonSets: the nodes that each leaves out, and the strategy that it had.
	sparing    sync.Mutex
	spared     map[string][]string
	strategies map[string]appsv1.DaemonSetUpdateStrategy
}

// Main runs a package's tests after prepare, and ends the process. It is called by TestMain. OVN's databases have one
// member each: what three do is tested in package installed.
func Main(m *testing.M, prepare func(context.Context, *Cluster) error) {
	begin(m, func(o *sandbox.Options) { o.Overlay = sandbox.OverlaySingle }, prepare)
}

// MainBare is Main on a bare sandbox, in which prepare has to install Atoll. Its databases are not dialled: NB is nil.
func MainBare(m *testing.M, prepare func(context.Context, *Cluster) error) {
	begin(m, func(o *sandbox.Options) { o.Bare = true }, prepare)
}

// MainBareOf is MainBare on a sandbox of some nodes.
func MainBareOf(m *testing.M, nodes int, prepare func(context.Context, *Cluster) error) {
	begin(m, func(o *sandbox.Options) { o.Bare, o.Nodes = true, nodes }, prepare)
}

func begin(m *testing.M, change func(*sandbox.Options), prepare func(context.Context, *Cluster) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m, change, prepare)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // in place of the package's TestMain, which may
}

func run(
	ctx context.Context, m *testing.M, change func(*sandbox.Options), prepare func(context.Context, *Cluster) error,
) (code int, err error) {
	root, err := repository()
	if err != nil {
		return 1, err
	}
	bin := cmp.Or(os.Getenv("ATOLL_E2E_BIN"), filepath.Join(root, "bin"))
	name := cmp.Or(os.Getenv("ATOLL_E2E_NAME"), defaultName)
	options := sandbox.Options{
		Name: name, State: stateBase + name, Source: root, Bin: bin, Program: filepath.Join(bin, "atoll-sandbox"),
	}
	change(&options)
	keep := os.Getenv("ATOLL_E2E_KEEP") != ""
	if !keep {
		if err := RemoveAll(options); err != nil {
			return 1, err
		}
		defer func() {
			if downErr := RemoveAll(options); err == nil {
				err = downErr
			}
		}()
	}
	upCtx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	c, err := start(upCtx, options, root)
	if err != nil {
		return 1, err
	}
	if c.databases != nil {
		defer c.databases.remove()
	}
	if c.NB != nil {
		defer c.NB.Close()
	}
	if err := prepare(upCtx, c); err != nil {
		return 1, err
	}
	code = m.Run()
	if err := c.crashes(); err != nil {
		fmt.Println(err)
		code = 1
	}
	if code != 0 {
		c.printLogs()
	}
	return code, nil
}

// repository is the directory of go.mod around the package that is tested, in which go test starts it.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.mod around the working directory")
		}
	}
}

// crashes reports the first program of Atoll's own that has panicked: the next one takes over so quickly that no test
// need notice.
func (c *Cluster) crashes() error {
	paths, err := c.logs()
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its container was removed
		}
		if err != nil {
			return err
		}
		// A line of a container's log has a time, the stream, and F for a whole line before what was printed.
		for _, word := range []string{" stderr F panic: ", " stderr F fatal error: "} {
			if at := strings.Index(string(text), word); at >= 0 {
				return fmt.Errorf("%s has a crash:\n%s", path, text[at:min(len(text), at+logTail)])
			}
		}
	}
	return nil
}

// logs are the logs of the containers of Atoll's own programs, whose last but one each node keeps too.
func (c *Cluster) logs() ([]string, error) {
	var paths []string
	for _, node := range c.Box.Nodes() {
		for _, program := range []string{"atoll-controller", "atoll-inspect", "atoll-agent", "atoll-dns"} {
			found, err := filepath.Glob(filepath.Join(c.Box.PodLogs(node), System+"_"+program+"-*", "*", "*.log"))
			if err != nil {
				return nil, fmt.Errorf("find logs: %w", err)
			}
			paths = append(paths, found...)
		}
	}
	return paths, nil
}

// logTail is how much of a log is printed after a failure, in bytes.
const logTail = 6000

// printLogs prints the ends of the logs of Atoll's own programs, which go with the sandbox.
func (c *Cluster) printLogs() {
	paths, err := c.logs()
	if err != nil {
		fmt.Println(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("\n== the end of the log %s\n%s\n", path, text[max(0, len(text)-logTail):])
	}
}

// RemoveAll takes the sandbox down, twice, and fails if anything is left.
func RemoveAll(options sandbox.Options) error {
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

// start brings up the sandbox.
func start(ctx context.Context, options sandbox.Options, root string) (*Cluster, error) {
	box, err := sandbox.Up(ctx, options, os.Stdout)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Options: options, Root: root, Box: box, spared: map[string][]string{}, strategies: map[string]appsv1.DaemonSetUpdateStrategy{},
	}
	if c.Config, err = box.RESTConfig(); err != nil {
		return nil, err
	}
	c.Config.QPS = -1
	if c.Clients, err = ready.NewClients(c.Config); err != nil {
		return nil, err
	}
	if c.Exec, err = matrix.NewExec(c.Config, c.Clients.Kube); err != nil {
		return nil, err
	}
	if options.Bare {
		return c, nil
	}
	if c.databases, err = c.findDatabases(ctx); err != nil {
		return nil, err
	}
	if c.NB, err = dialNorthbound(ctx, c.NBAddress()); err != nil {
		return nil, err
	}
	return c, nil
}

// Program is a call of atoll-sandbox as a user makes it, from the root of the repository.
func (c *Cluster) Program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Options.Program, append([]string{"--state=" + c.Options.State}, args...)...)
	cmd.Dir = c.Root
	return cmd
}
