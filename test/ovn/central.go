// Package ovn runs a real OVN central for tests and benchmarks: ovsdb-server for the northbound and the
// southbound database, and ovn-northd, on unix sockets in a directory of their own.
//
// The programs and schemas are those below the prefix that ATOLL_OVN_PREFIX names.
package ovn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/process/child"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// PrefixVariable names the environment variable that holds the prefix of OVN and OVS.
const PrefixVariable = "ATOLL_OVN_PREFIX"

// Options of a central.
type Options struct {
	// Dir holds databases, sockets and logs; it must exist and its path be short enough for a socket's.
	Dir string
	// Northd: run the southbound database and ovn-northd too.
	Northd bool
	// SouthboundArgs are further arguments for the southbound database's server.
	SouthboundArgs []string
}

// Central is a running OVN central.
type Central struct {
	parts parts.OVN
	dir   string
	procs map[string]*child.Child
	// southbound is Options.SouthboundArgs.
	southbound []string
	// tracers counts those that were started.
	tracers int
}

// Start runs a central for the time of a test.
func Start(t testing.TB, northd bool) *Central {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := Run(t.Context(), Options{Dir: dir, Northd: northd})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// Run starts a central; Stop ends it. Its processes end with this one at the latest.
func Run(ctx context.Context, o Options) (*Central, error) {
	found, err := locate()
	if err != nil {
		return nil, err
	}
	c := newCentral(found, o.Dir)
	c.southbound = o.SouthboundArgs
	databases := []string{"nb"}
	if o.Northd {
		databases = append(databases, "sb")
	}
	for _, db := range databases {
		if err := c.create(ctx, db); err != nil {
			return nil, err
		}
		if err := c.StartDatabase(ctx, db); err != nil {
			c.Stop()
			return nil, err
		}
	}
	if o.Northd {
		err := c.start("northd", "ovn-northd", "--ovnnb-db="+c.NBAddress(), "--ovnsb-db="+c.SBAddress(),
			"--unixctl="+c.path("northd.ctl"), "--log-file="+c.path("northd.log"), "-vconsole:off")
		if err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// locate finds OVN's programs.
func locate() (parts.OVN, error) {
	prefix := os.Getenv(PrefixVariable)
	if prefix == "" {
		return parts.OVN{}, fmt.Errorf("%s is not set: it must name a prefix with OVN's programs (make sets it)", PrefixVariable)
	}
	return parts.LocateOVN(prefix)
}

func newCentral(found parts.OVN, dir string) *Central {
	return &Central{parts: found, dir: dir, procs: map[string]*child.Child{}}
}

// NBAddress is the northbound database's address.
func (c *Central) NBAddress() string { return "unix:" + c.path("nb.sock") }

// SBAddress is the southbound database's address.
func (c *Central) SBAddress() string { return "unix:" + c.path("sb.sock") }

// Program is where one of OVN's programs is.
func (c *Central) Program(name string) string { return c.parts.Program(name) }

// PID is the process of one of: nb, sb, northd.
func (c *Central) PID(name string) int { return c.procs[name].PID() }

// NBCtl runs ovn-nbctl and returns what it prints.
func (c *Central) NBCtl(ctx context.Context, args ...string) (string, error) {
	return c.ctl(ctx, "ovn-nbctl", append([]string{"--db=" + c.NBAddress(), "--timeout=20"}, args...)...)
}

// SBCtl runs ovn-sbctl and returns what it prints.
func (c *Central) SBCtl(ctx context.Context, args ...string) (string, error) {
	return c.ctl(ctx, "ovn-sbctl", append([]string{"--db=" + c.SBAddress(), "--timeout=20"}, args...)...)
}

// Client runs ovn-sbctl as any other client would. The caller passes the address and the options.
func (c *Central) Client(ctx context.Context, args ...string) (string, error) {
	return c.ctl(ctx, "ovn-sbctl", append([]string{"--timeout=20"}, args...)...)
}

// Ask sends a command to one of: nb, sb, northd (ovs-appctl(8)) and returns what it prints.
func (c *Central) Ask(ctx context.Context, name string, args ...string) (string, error) {
	return c.ctl(ctx, "ovs-appctl", append([]string{"-t", c.path(name + ".ctl")}, args...)...)
}

// Dump is all that the northbound database holds, sorted.
func (c *Central) Dump(ctx context.Context) (string, error) {
	return c.ctl(ctx, "ovsdb-client", "--format=csv", "dump", c.NBAddress(), "OVN_Northbound")
}

// File is the database file of nb or sb.
func (c *Central) File(db string) string { return c.path(db + ".db") }

// StartDatabase starts the server of nb or sb on the database file that is there.
func (c *Central) StartDatabase(ctx context.Context, db string) error {
	args := []string{
		"--remote=punix:" + c.path(db+".sock"), "--unixctl=" + c.path(db+".ctl"), "--log-file=" + c.path(db+".log"), "-vconsole:off",
		"--no-chdir",
	}
	if db == "sb" {
		args = append(args, c.southbound...)
	}
	if err := c.start(db, "ovsdb-server", append(args, c.path(db+".db"))...); err != nil {
		return err
	}
	return c.await(ctx, db)
}

// Kill ends one of: nb, sb, northd, with no chance to say goodbye.
func (c *Central) Kill(name string) {
	if daemon := c.procs[name]; daemon != nil {
		daemon.Kill()
		delete(c.procs, name)
	}
}

// LastWords are the last lines of the log of one of: nb, sb, northd.
func (c *Central) LastWords(name string) string {
	const lines = 20
	text, err := os.ReadFile(c.path(name + ".log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Stop ends everything.
func (c *Central) Stop() {
	c.Kill("northd")
	for name := range c.procs {
		c.Kill(name)
	}
}

func (c *Central) create(ctx context.Context, db string) error {
	schema := map[string]string{"nb": c.parts.NorthboundSchema, "sb": c.parts.SouthboundSchema}[db]
	_, err := c.ctl(ctx, "ovsdb-tool", "create", c.path(db+".db"), schema)
	return err
}

func (c *Central) start(name, program string, args ...string) error {
	cmd := exec.Command(c.parts.Program(program), args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+c.dir, "OVN_RUNDIR="+c.dir, "OVS_LOGDIR="+c.dir, "OVN_LOGDIR="+c.dir)
	daemon, err := child.Start(cmd)
	if err == nil {
		c.procs[name] = daemon
	}
	return err
}

// await waits until a server answers.
func (c *Central) await(ctx context.Context, db string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(c.path(db + ".sock")); err == nil {
			if _, err := c.ctl(ctx, "ovsdb-client", "list-dbs", "unix:"+c.path(db+".sock")); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the %s database: %w", db, ctx.Err())
		case <-tick.C:
		}
	}
}

func (c *Central) ctl(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.parts.Program(program), args...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(out), nil
}

func (c *Central) path(name string) string { return filepath.Join(c.dir, name) }
