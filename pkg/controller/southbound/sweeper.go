package southbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// The times of a Sweeper that says no others.
const (
	sweepEvery = time.Minute
	goneAfter  = 5 * time.Minute
	// sweepTime bounds one look.
	sweepTime = 30 * time.Second
	// lookAtList is how often it looks whether nodes were shut out.
	lookAtList = 5 * time.Second
)

// Sweeper deletes chassis of nodes that are shut out, at once, and those whose Node objects are gone: every other node keeps a
// tunnel to them. With a chassis it deletes the node's row of Chassis_Private, also one whose chassis is gone. And it deletes
// rows that a node has added to tables that nothing uses. The database must be Atoll's alone.
type Sweeper struct {
	Kube kubernetes.Interface
	// Southbound is reached with all rights.
	Southbound ovsdb.Config
	Learnt     *Learnt
	// GoneAfter is how long a chassis must have no Node; 0 is 5 minutes. Every is how often it looks; 0 is that long, and a minute at most.
	Every, GoneAfter time.Duration
	Log              *slog.Logger

	// gone says since when chassis have had no Node, as far as this process has seen.
	gone map[string]time.Time
	// shutOut are the nodes that are shut out, as it looked last.
	shutOut shutout.List
}

// Run looks again and again until ctx ends. What fails is tried with the next look.
func (s *Sweeper) Run(ctx context.Context) {
	if s.GoneAfter == 0 {
		s.GoneAfter = goneAfter
	}
	if s.Every == 0 {
		s.Every = min(sweepEvery, s.GoneAfter)
	}
	s.gone = map[string]time.Time{}
	tick, list := time.NewTicker(s.Every), time.NewTicker(min(lookAtList, s.Every))
	defer tick.Stop()
	defer list.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-list.C:
			if !s.listed(ctx) {
				continue
			}
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("the southbound database is not swept", "error", err)
		}
	}
}

// listed reports whether a node was shut out since the last sweep.
func (s *Sweeper) listed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	now, err := shutout.Read(ctx, s.Kube)
	if err != nil {
		return false // The next sweep says it.
	}
	for name := range now {
		if _, known := s.shutOut[name]; !known {
			return true
		}
	}
	return false
}

func (s *Sweeper) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	out, err := shutout.Read(ctx, s.Kube)
	if err != nil {
		return err
	}
	table, err := ovsdb.OpenChassis(ctx, s.Southbound)
	if err != nil {
		return err
	}
	defer table.Close()
	// Chassis first: what a node adds may take all the time.
	return errors.Join(s.sweepChassis(ctx, table, out), s.look(ctx, table))
}

// sweepChassis deletes those of nodes that are shut out, and of nodes that are gone.
func (s *Sweeper) sweepChassis(ctx context.Context, table *ovsdb.ChassisTable, out shutout.List) error {
	// A private row without its chassis is swept as a chassis.
	chassis, err := table.ListAll(ctx)
	if err != nil {
		return err
	}
	for _, c := range chassis {
		// OVN's role holds the name of a chassis to the certificate of its node. All else is what the node says: its host, and that it is
		// of another zone.
		if _, is := out[c.Name]; !is {
			continue
		}
		if err := table.Delete(ctx, c.Name); err != nil {
			return err
		}
		s.Log.Info("chassis deleted: its node is shut out", "chassis", c.Name)
		s.tell(ctx, c.Name, corev1.EventTypeWarning,
			fmt.Sprintf("node %s is shut out: its chassis is deleted from OVN's southbound database, and other nodes take their tunnels to it away",
				c.Name))
	}
	s.shutOut = out
	nodes, err := s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	names := map[string]bool{}
	for _, n := range nodes.Items {
		names[n.Name] = true
	}
	for _, name := range s.due(chassis, names, time.Now()) {
		if err := s.delete(ctx, table, name); err != nil {
			return err
		}
	}
	return nil
}

// due are the chassis that have had no Node for long enough. Whose a chassis is its name alone says: a thief can give theirs the host
// name of a Node that is there, and
// say that it is of another availability zone, whose chassis have no Nodes.
func (s *Sweeper) due(chassis []ovsdb.Chassis, nodes map[string]bool, now time.Time) []string {
	var out []string
	seen := map[string]time.Time{}
	for _, c := range chassis {
		if nodes[c.Name] {
			continue
		}
		since, known := s.gone[c.Name]
		if !known {
			since = now
		}
		seen[c.Name] = since
		if known && now.Sub(since) >= s.GoneAfter {
			out = append(out, c.Name)
		}
	}
	s.gone = seen
	return out
}

// delete deletes a chassis, unless its Node has come meanwhile.
func (s *Sweeper) delete(ctx context.Context, table *ovsdb.ChassisTable, name string) error {
	_, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		delete(s.gone, name)
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	since := s.gone[name]
	if err := table.Delete(ctx, name); err != nil {
		return err
	}
	delete(s.gone, name)
	s.Log.Info("chassis deleted: its node is gone", "node", name, "since", since.UTC().Format(time.RFC3339))
	s.tell(ctx, name, corev1.EventTypeNormal,
		fmt.Sprintf("node %s is gone: its chassis is deleted from OVN's southbound database, and other nodes take their tunnels to it away",
			name))
	return nil
}

// tell sends an Event about a node's chassis.
func (s *Sweeper) tell(ctx context.Context, node, kind, message string) {
	if err := tellDeleted(ctx, s.Kube, node, kind, message); err != nil {
		s.Log.Warn("no Event", "error", err)
	}
}

// tellDeleted sends an Event that a node's chassis was deleted.
func tellDeleted(ctx context.Context, kube kubernetes.Interface, node, kind, message string) error {
	now := metav1.Now()
	_, err := kube.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "atoll-chassis-", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
		Reason:         "ChassisDeleted",
		Message:        message,
		Type:           kind,
		Source:         corev1.EventSource{Component: "atoll-controller"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Event: %w", err)
	}
	return nil
}
