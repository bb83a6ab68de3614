package chassis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/process/child"
)

const (
	// lookEvery is the pause between two looks at something that is to come.
	lookEvery = 20 * time.Millisecond
	// patience bounds the wait for a daemon that was just started to answer. On a busy machine, with a large database, it takes seconds.
	patience = 60 * time.Second
	// farewell is how long a daemon has to end once it was asked to. Then it is killed. With what is done before, it fits into the pod's
	// terminationGracePeriodSeconds.
	farewell = 15 * time.Second
	// A daemon that ended before it was steady, and did so tries times in a row, is given up: whoever runs us waits longer and longer.
	steady = 10 * time.Second
	tries  = 3
)

// Directories are where the daemons meet.
type Directories struct {
	// Switch is Open vSwitch's run directory, by the very name that the agent calls it: ovs-vswitchd opens no socket in a directory
	// of another name.
	Switch string
	// OVN is OVN's run directory.
	OVN string
}

func (d Directories) database() string { return d.Switch + "/db.sock" }

// control is the control socket of a daemon.
func (d Directories) control(daemon string) string {
	if daemon == controllerDaemon {
		return d.OVN + "/" + daemon + ".ctl"
	}
	return d.Switch + "/" + daemon + ".ctl"
}

// pidfile has the daemon's lock: a second daemon ends at once, and one that was killed does not hold up the next. The number in
// it means nothing outside of the container.
func (d Directories) pidfile(daemon string) string {
	return strings.TrimSuffix(d.control(daemon), ".ctl") + ".pid"
}

func (d Directories) environment() []string {
	return append(os.Environ(), "OVS_RUNDIR="+d.Switch, "OVN_RUNDIR="+d.OVN)
}

// make makes the directories, on a node that has had no Open vSwitch yet.
func (d Directories) make() error {
	for _, dir := range []string{d.Switch, d.OVN} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make run directory: %w", err)
		}
	}
	return nil
}

// run runs a program, which is found by PATH, to its end, and returns what it prints.
func (d Directories) run(ctx context.Context, program string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = d.environment()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("run %s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w", program, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// vsctl runs ovs-vsctl(8). It does not wait for ovs-vswitchd, which may be away.
func (d Directories) vsctl(ctx context.Context, words ...string) (string, error) {
	return d.run(ctx, "ovs-vsctl", append([]string{"--db=unix:" + d.database(), "--timeout=10", "--no-wait"}, words...)...)
}

// daemon is one of the node's three.
type daemon struct {
	name string
	dirs Directories
	// arguments are the daemon's own; where it listens and logs is added.
	arguments []string
	// prepare is called before each start of the process, and started once it answers. Either may be nil.
	prepare, started func(context.Context) error
	// leave is called before the daemon is asked to end. It may be nil.
	leave func(context.Context)
	// exit is the command by which it ends.
	exit []string
	log  *slog.Logger
}

// errEndless ends a daemon that does not live.
var errEndless = errors.New("it ended again and again")

// keep runs the daemon until ctx ends, and starts it again when it dies.
func (d daemon) keep(ctx context.Context) error {
	d.log = d.log.With("daemon", d.name)
	for short := 0; ; {
		begin := time.Now()
		err := d.once(ctx)
		if ctx.Err() != nil {
			return unlessTold(ctx, err)
		}
		if time.Since(begin) >= steady {
			short = 0
		}
		short++
		if short >= tries {
			return fmt.Errorf("run %s: %w: %w", d.name, errEndless, err)
		}
		d.log.Error("the daemon ended by itself; it is started again", "after", time.Since(begin).Round(time.Millisecond), "error", err)
	}
}

// once runs the process until it ends, or ends it when ctx ends. An error says that it did not end as it was asked to.
func (d daemon) once(ctx context.Context) error {
	if d.prepare != nil {
		if err := d.prepare(ctx); err != nil {
			return err
		}
	}
	process, err := d.start()
	if err != nil {
		return err
	}
	if err := d.settle(ctx, process); err != nil && ctx.Err() == nil {
		_ = d.end(process)
		return err
	}
	select {
	case <-process.Done():
		return fmt.Errorf("%s: %w", d.name, process.Ended())
	case <-ctx.Done():
	}
	return d.end(process)
}

// start starts the process. It ends with us, however we end.
func (d daemon) start() (*child.Child, error) {
	cmd := exec.Command(d.name, append(d.arguments,
		"--unixctl="+d.dirs.control(d.name), "--pidfile="+d.dirs.pidfile(d.name), "--no-chdir",
		// Its log is the container's, which the runtime bounds.
		"-vconsole:info", "-vfile:off", "-vsyslog:off")...)
	cmd.Env = d.dirs.environment()
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// A group of its own: a terminal's interrupt is for us, who know how it is to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process, err := child.Start(cmd)
	if err == nil {
		d.log.Info("daemon started", "pid", process.PID())
	}
	return process, err
}

// settle waits until the process answers, and does what follows.
func (d daemon) settle(ctx context.Context, process *child.Child) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := await(ctx, func() error {
		select {
		case <-process.Done():
			return fmt.Errorf("%s ended before it answered: %w", d.name, errors.Join(process.Wait(), errStop))
		default:
		}
		_, err := ask(ctx, d.dirs.control(d.name), "version")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", d.name, err)
	}
	if d.started == nil {
		return nil
	}
	return d.started(ctx)
}

// end asks the process to end, and kills it when it does not.
func (d daemon) end(process *child.Child) error {
	// Whoever runs us has told us to end: what is done now has time of its own.
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if d.leave != nil {
		d.leave(ctx)
	}
	d.log.Info("the daemon is told to end", "command", strings.Join(d.exit, " "))
	if _, err := ask(ctx, d.dirs.control(d.name), d.exit[0], d.exit[1:]...); err != nil {
		d.log.Warn("the daemon does not hear the command; it gets a signal", "error", err)
		process.Signal(syscall.SIGTERM)
	}
	select {
	case <-process.Done():
		return process.Wait()
	case <-ctx.Done():
		process.Kill()
		return fmt.Errorf("end %s: it was killed, since it had not ended %s after it was asked to: %w", d.name, farewell, process.Wait())
	}
}

// unlessTold is no error where work ended because it was told to.
func unlessTold(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errStop ends await.
var errStop = errors.New("it is no use to wait")

// await calls f until it succeeds, says errStop, or ctx ends.
func await(ctx context.Context, f func() error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || errors.Is(err, errStop) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
