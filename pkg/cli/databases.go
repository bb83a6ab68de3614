package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
)

const (
	// nbAddressHelp is that of --nb-address where the database is reached by way of the API server without it.
	nbAddressHelp = "read the northbound database at these servers (separated by commas), and not by way of the API server"
	// programEnd is how long a program may take to end when it is asked to.
	programEnd = 5 * time.Second
)

// addresses are those of a flag; none when it is empty.
func addresses(flag string) []string {
	if flag == "" {
		return nil
	}
	return strings.Split(flag, ",")
}

// programError is how a program has ended that was run; it has said why.
type programError struct {
	program string
	status  int
}

// Error says how it has ended.
func (e *programError) Error() string {
	return fmt.Sprintf("%s has ended with status %d", e.program, e.status)
}

func nbctlCommand() *cobra.Command {
	return databaseCommand("nbctl", "northbound", api.DatabaseNorthbound, `  atoll nbctl show red
  atoll nbctl --columns=name,up list Logical_Switch_Port red/web-0
  atoll nbctl --write --if-exists lsp-del red/stray`)
}

func sbctlCommand() *cobra.Command {
	return databaseCommand("sbctl", "southbound", api.DatabaseSouthbound, `  atoll sbctl show
  atoll sbctl lflow-list red/front`)
}

type databaseOptions struct {
	program, database string
	kubeconfig        string
	write             bool
}

func databaseCommand(name, adjective, database, example string) *cobra.Command {
	o := databaseOptions{program: "ovn-" + name, database: database}
	cmd := &cobra.Command{
		Use:   name + " [--write] [--kubeconfig FILE] ARGS...",
		Short: fmt.Sprintf("Run ovn-%s on OVN's %s database, by way of the API server", name, adjective),
		Long: fmt.Sprintf(`Run ovn-%s, which must be installed on this machine, with ARGS, on the server that leads OVN's
%s database. The API server connects it: a kubeconfig is enough.

The connection only reads, for which ClusterRole atoll-check has the right. With --write it writes,
too, which takes ClusterRole atoll-database-admin: whoever writes may undo every separation of
tenants. What Atoll owns is put back within moments.

The flags of this command come first. From the first argument on that is none of them, all are for
ovn-%s. Exit status: that of ovn-%s; 2 if it could not be run.`,
			name, adjective, name, name),
		Example: example,
		// Most flags are not ours.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.BoolVar(&o.write, "write", false, "may write, too")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		own, rest := splitFlags(args, f)
		if err := f.Parse(own); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(rest) == 0 || rest[0] == "-h" || rest[0] == "--help" {
			return cmd.Help()
		}
		if err := o.run(cmd.Context(), rest, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	return cmd
}

// splitFlags parts the flags that are ours, which come first, from all that is for the program. Help is asked of us by itself.
func splitFlags(args []string, known *pflag.FlagSet) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		name, _, valued := strings.Cut(args[i], "=")
		if name == "--" {
			return args[:i], args[i+1:]
		}
		flag := flagOf(name, known)
		switch {
		case flag == nil, flag.Name == "help":
			return args[:i], args[i:]
		case valued, flag.NoOptDefVal != "":
		case i+1 < len(args):
			i++
		default:
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// flagOf is the flag that is called so, by its name or its letter.
func flagOf(word string, known *pflag.FlagSet) *pflag.Flag {
	if name, long := strings.CutPrefix(word, "--"); long {
		return known.Lookup(name)
	}
	if letter, short := strings.CutPrefix(word, "-"); short && len(letter) == 1 {
		return known.ShorthandLookup(letter)
	}
	return nil
}

// run runs the program on a socket that leads to the database.
func (o databaseOptions) run(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) error {
	path, err := exec.LookPath(o.program)
	if err != nil {
		return fmt.Errorf("%s is not installed here, or not in PATH: install OVN's client programs (Debian, Ubuntu: ovn-common; Fedora: ovn)",
			o.program)
	}
	tunnel, err := connect.OpenTunnel(ctx, connect.TunnelQuery{Kubeconfig: o.kubeconfig, Database: o.database, Write: o.write})
	if err != nil {
		return err
	}
	defer tunnel.Close()
	cmd := exec.CommandContext(ctx, path, append([]string{"--db=" + tunnel.Address()}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, problems
	cmd.Env = withoutOVN(os.Environ())
	return runThrough(cmd, tunnel, problems)
}

// runThrough runs a program to its end, which uses a tunnel. What the tunnel could not do is said, if the program has failed.
func runThrough(cmd *exec.Cmd, tunnel *connect.Tunnel, problems io.Writer) error {
	program := filepath.Base(cmd.Path)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, programEnd
	err := cmd.Run()
	if why := tunnel.Err(); err != nil && why != nil {
		fmt.Fprintln(problems, "atoll:", why)
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return &programError{program, statusOf(ended.ProcessState)}
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// withoutOVN leaves out what would lead the program to another database, or to a daemon that is connected to one.
func withoutOVN(environment []string) []string {
	var out []string
	for _, e := range environment {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "OVN_NB_DB", "OVN_SB_DB", "OVN_NB_DAEMON", "OVN_SB_DAEMON", "OVS_RUNDIR":
		default:
			out = append(out, e)
		}
	}
	return out
}

// statusOf is the status that a shell gives a process that has ended.
func statusOf(p *os.ProcessState) int {
	const signalled = 128
	if w, ok := p.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalled + int(w.Signal())
	}
	return p.ExitCode()
}
