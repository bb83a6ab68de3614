package central

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// NorthdOptions say how ovn-northd runs.
type NorthdOptions struct {
	// Run is its directory of sockets, Certificates what another program keeps there: tls.crt, tls.key, ca.crt.
	Run, Certificates string
	Programs          Programs
	Log               *slog.Logger
}

// RunNorthd keeps ovn-northd, of which one is active by its own lock in the southbound database. It starts anew when the databases'
// members change or certificates are renewed: another takes over meanwhile. The end of ctx is no error.
func RunNorthd(ctx context.Context, store Store, o NorthdOptions) error {
	if err := os.MkdirAll(o.Run, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	said := ""
	for ctx.Err() == nil {
		err := northd(ctx, store, o)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			o.Log.InfoContext(ctx, "ovn-northd does not run", "why", said)
		}
		_ = pause(ctx, look)
	}
	return nil
}

// databases are the addresses of both, and which clusters they are.
type databases struct{ North, South, Clusters string }

var errNoMembers = errors.New("waiting for members of both databases in the record")

func readDatabases(ctx context.Context, store Store) (d databases, err error) {
	north, err := store.Get(ctx, Northbound)
	if err != nil {
		return d, err
	}
	south, err := store.Get(ctx, Southbound)
	if err != nil {
		return d, err
	}
	// Of a cluster that was made anew, a process that knew the one before takes nothing: it looks stale (ovsdb(7)).
	d = databases{
		North: north.Remotes(Northbound.ClientPort()), South: south.Remotes(FullPort), Clusters: north.ClusterID + " " + south.ClusterID,
	}
	if d.North == "" || d.South == "" {
		return d, errNoMembers
	}
	return d, nil
}

// northd runs ovn-northd once.
func northd(ctx context.Context, store Store, o NorthdOptions) error {
	// Its ca.crt is of the central CA alone.
	id, err := readIdentity(o.Certificates, Northbound)
	if err != nil {
		return err
	}
	memory := filepath.Join(o.Run, "ovn-northd.record")
	where, err := readDatabases(ctx, store)
	if errors.Is(err, errNoMembers) {
		return err
	}
	if err == nil {
		err = remember(memory, where)
	} else if recall(memory, &where) == nil {
		o.Log.WarnContext(ctx, "the record cannot be read: starting by what was seen last", "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	dir := filepath.Join(o.Run, "ovn-northd.tls")
	if err := id.lay(dir); err != nil {
		return err
	}
	current := filepath.Join(dir, "current")
	daemon, err := startChild(o.Programs.Path("ovn-northd"), []string{"OVS_RUNDIR=" + o.Run, "OVN_RUNDIR=" + o.Run},
		"--ovnnb-db="+where.North, "--ovnsb-db="+where.South, "--unixctl="+filepath.Join(o.Run, "ovn-northd.ctl"),
		"--private-key="+filepath.Join(current, keyFile), "--certificate="+filepath.Join(current, certificateFile),
		"--ca-cert="+filepath.Join(current, caFile),
		"-vconsole:info", "-vsyslog:off", "-vfile:off")
	if err != nil {
		return err
	}
	o.Log.InfoContext(ctx, "ovn-northd runs", "pid", daemon.PID(), "nb", where.North, "sb", where.South)
	defer daemon.End(farewell)
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-daemon.Done():
			return fmt.Errorf("ovn-northd ended: %w", daemon.Ended())
		case <-tick.C:
		}
		// What cannot be read is no reason to stop.
		if now, err := readDatabases(ctx, store); err == nil && now != where {
			return errors.New("members have changed: starting anew")
		}
		if now, err := readIdentity(o.Certificates, Northbound); err == nil && !now.same(id) {
			return errors.New("certificates renewed: starting anew")
		}
	}
}

// NorthdReady asks ovn-northd whether it is connected to both databases: active, or standby behind another.
func NorthdReady(ctx context.Context, run string) error {
	socket := filepath.Join(run, "ovn-northd.ctl")
	for _, command := range []string{"nb-connection-status", "sb-connection-status"} {
		answer, err := ask(ctx, socket, command)
		if err != nil {
			return err
		}
		if answer != "connected\n" && answer != "connected" {
			return fmt.Errorf("%s: %s", command, answer)
		}
	}
	return nil
}
