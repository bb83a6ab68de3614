package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// StopNode takes a node's power away: all its processes end at once, and its network, its mounts and what was in
// memory go with them. What was on its disk stays: the directories of kubelet, containerd, CNI and Open vSwitch.
// Kubernetes finds out by itself. Stopping a node that is off does nothing.
func (s *Sandbox) StopNode(ctx context.Context, name string) error {
	return s.withNode(ctx, name, s.powerOff)
}

// StartNode gives a node its power back, and waits until its daemons are ready. Kubernetes may take a little longer to
// see the node Ready. Starting a node that is on does nothing.
func (s *Sandbox) StartNode(ctx context.Context, name string) error {
	return s.withNode(ctx, name, s.powerOn)
}

// RebootNode is StopNode and StartNode.
func (s *Sandbox) RebootNode(ctx context.Context, name string) error {
	return s.withNode(ctx, name, s.powerOff, s.powerOn)
}

// isOn tells whether a place's first process answers.
func (s *Sandbox) isOn(ctx context.Context, name string) bool {
	client, err := s.supervisor(name)
	if err != nil {
		return false
	}
	_, err = client.Daemons(ctx)
	return err == nil
}

// withNode takes steps with a node, of which nobody else takes any meanwhile.
func (s *Sandbox) withNode(ctx context.Context, name string, steps ...func(context.Context, string) error) error {
	if !slices.Contains(s.Nodes(), name) {
		return fmt.Errorf("find node %q: there are %s", name, strings.Join(s.Nodes(), ", "))
	}
	unlock, err := lock(ctx, s.record.Options.Name)
	if err != nil {
		return err
	}
	defer unlock()
	for _, step := range steps {
		if err := step(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) powerOff(ctx context.Context, name string) error {
	if err := s.endPlace(ctx, name); err != nil {
		return err
	}
	sandbox := s.record.Options.Name
	if err := s.unplug(name); err != nil {
		return err
	}
	namespaces, err := namespacesOf(sandbox)
	if err != nil {
		return err
	}
	if slices.Contains(namespaces, s.Namespace(name)) {
		if err := removeNamespace(s.Namespace(name)); err != nil {
			return err
		}
	}
	return poll(ctx, endLimit, "the cgroups of "+name+" to be empty", func(context.Context) (bool, error) {
		return removeCgroups(sandbox + "/" + name)
	})
}

// endPlace kills the first process of a place and waits until the kernel has ended all others there.
func (s *Sandbox) endPlace(ctx context.Context, name string) error {
	client, err := s.supervisor(name)
	if err != nil {
		return err
	}
	pid, err := client.PID(ctx)
	if err != nil {
		return nil //nolint:nilerr // nobody listens: the place has ended
	}
	process{pid: pid}.kill(s.record.Options.Name)
	return poll(ctx, endLimit, "the processes of "+name+" to end", func(context.Context) (bool, error) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		// It becomes a zombie, or vanishes, when the kernel has ended and collected all others (pid_namespaces(7)).
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
		return gone || strings.Contains(string(status), "\nState:\tZ") || (err == nil && innermostPID(string(status)) != 1), nil
	})
}

// unplug removes a node's wires. They would go with the node's network namespace, but that takes the kernel a while, and
// the next start makes them under the same names.
func (s *Sandbox) unplug(name string) error {
	central, err := openNamespace(s.Namespace(Central))
	if err != nil {
		return err
	}
	defer central.Close()
	for _, n := range nodesUpTo(s.record.Options.Nodes) {
		if n.name != name {
			continue
		}
		for _, w := range nodeWires(n) {
			link, err := central.LinkByName(w.outside())
			if errors.As(err, new(netlink.LinkNotFoundError)) {
				continue
			}
			if err == nil {
				err = central.LinkDel(link)
			}
			if err != nil {
				return fmt.Errorf("remove veth %s: %w", w.outside(), err)
			}
		}
	}
	return nil
}

func (s *Sandbox) powerOn(ctx context.Context, name string) error {
	if s.isOn(ctx, name) {
		return nil
	}
	if err := s.powerOff(ctx, name); err != nil { // what a crash of its first process left
		return err
	}
	at := slices.IndexFunc(nodesUpTo(s.record.Options.Nodes), func(n node) bool { return n.name == name })
	n := nodesUpTo(s.record.Options.Nodes)[at]
	if err := makeNamespace(s.Namespace(name)); err != nil {
		return err
	}
	central, err := openNamespace(s.Namespace(Central))
	if err != nil {
		return err
	}
	defer central.Close()
	if err := wireNode(s.record.Options.Name, central, n); err != nil {
		return fmt.Errorf("wire node %s: %w", name, err)
	}
	if err := makeCgroups(s.record); err != nil {
		return err
	}
	spec := nodeSpec(s.record, n)
	var daemons []string
	for i := range spec.Daemons {
		spec.Daemons[i].Held = false // the cluster is there: nothing has to wait for it
		daemons = append(daemons, spec.Daemons[i].Name)
	}
	if err := s.boot(ctx, spec); err != nil {
		return err
	}
	return s.waitDaemons(ctx, []string{name}, daemons...)
}

// boot starts the first process of a place and waits until it answers.
func (s *Sandbox) boot(ctx context.Context, spec place.Spec) error {
	launched, err := place.Launch(s.record.Options.Program, s.Namespace(spec.Name), spec)
	if err != nil {
		return err
	}
	return poll(ctx, placeLimit, "place "+spec.Name+" to answer", func(ctx context.Context) (bool, error) {
		select {
		case <-launched.Ended:
			return false, fmt.Errorf("start place %s: its first process ended%s", spec.Name, s.logTail(spec.Name, "init"))
		default:
		}
		_, err := place.Client{Socket: spec.Control}.Daemons(ctx)
		return err == nil, nil
	})
}
