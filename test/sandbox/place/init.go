package place

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is the first process of a place. It returns only if the place cannot be made, or when it was told to
// end; either way the kernel then ends whatever still runs in the place.
func Init(ctx context.Context, specFile string) error {
	if os.Getpid() != 1 {
		return errors.New("start place: only the first process of a pid namespace can do that (atoll-sandbox up starts it)")
	}
	spec, err := readSpec(specFile)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(spec.Cgroup, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := mountAll(spec); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return supervise(ctx, spec)
}

func supervise(ctx context.Context, spec Spec) error {
	environment := append([]string{IDVariable + "=" + spec.ID}, spec.Environment...)
	children := newChildren(environment)
	supervisors, err := wire(spec, children)
	if err != nil {
		return err
	}
	listener, err := listen(spec.Control)
	if err != nil {
		return err
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { children.reap(ctx) })
	for _, s := range supervisors {
		tasks.Go(func() { s.run(ctx) })
	}
	tasks.Go(func() { serve(ctx, listener, supervisors) })
	slog.Info("place runs", "place", spec.Name, "daemons", len(supervisors))
	<-ctx.Done()
	slog.Info("place ends", "place", spec.Name)
	return nil
}

// wire makes a supervisor for each daemon and connects those that wait to those they wait for.
func wire(spec Spec, children *children) ([]*supervisor, error) {
	supervisors := make([]*supervisor, 0, len(spec.Daemons))
	byName := map[string]*supervisor{}
	for _, d := range spec.Daemons {
		s := newSupervisor(d, spec.Name, spec.Logs, children)
		for _, name := range d.After {
			other, ok := byName[name]
			if !ok {
				return nil, fmt.Errorf("order daemons: %s comes after %s, which is not listed before it", d.Name, name)
			}
			s.after = append(s.after, other)
		}
		byName[d.Name] = s
		supervisors = append(supervisors, s)
	}
	return supervisors, nil
}
