package central

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNothingLost says that there is no need to make databases anew.
var ErrNothingLost = errors.New("nothing is lost")

// RebuildPlan says which databases are to be made anew.
type RebuildPlan struct {
	// Give has the databases whose clusters are to be given up, in this order; none of one that is being made anew already.
	Give []Kind
	// Underway: somebody has begun before.
	Underway bool
	// Reasons say why, or why not, a line each.
	Reasons []string

	// seen are the records that it was decided by.
	seen map[Kind]Database
}

// PlanRebuild decides what Rebuild does. The northbound database tells all of the southbound one, so that this goes with it. discard gives
// clusters up, too, whose members still have files.
func PlanRebuild(records map[Kind]Database, discard bool) (RebuildPlan, error) {
	p := RebuildPlan{seen: records}
	nb, sb := records[Northbound], records[Southbound]
	renewed := func(d Database) bool { return d.Gone() && len(d.Before) > 0 }
	p.Underway = renewed(nb) || renewed(sb) || sb.Held
	givenUp := func(kind Kind, d Database) bool {
		yes, why := d.givenUp(kind, discard)
		p.Reasons = append(p.Reasons, why)
		return yes
	}
	north := givenUp(Northbound, nb) && (!sb.Held || !discard)
	south := givenUp(Southbound, sb) && (!sb.Held || sb.Lost())
	// Nodes must not hear of a southbound database that follows an empty northbound one: it is held first.
	if north && !sb.Gone() && !sb.Held {
		if !south {
			p.Reasons = append(p.Reasons, "sb: it is made of the northbound database, and goes with it")
		}
		south = true
	}
	if south {
		p.Give = append(p.Give, Southbound)
	}
	if north {
		p.Give = append(p.Give, Northbound)
	}
	if len(p.Give) == 0 && !p.Underway {
		return p, fmt.Errorf("%w: %s", ErrNothingLost, strings.Join(p.Reasons, "; "))
	}
	return p, nil
}

// givenUp reports whether a cluster is lost, or discarded, and why.
func (d Database) givenUp(kind Kind, discard bool) (yes bool, why string) {
	switch {
	case d.Gone():
		return false, fmt.Sprintf("%s: there is no cluster yet", kind)
	case d.Lost():
		return true, fmt.Sprintf("%s: each member has lost its file of cluster %s", kind, d.ClusterID)
	case discard:
		return true, fmt.Sprintf("%s: cluster %s is given up; files that members still have are moved aside", kind, d.ClusterID)
	}
	var have []string
	for _, m := range d.Members {
		if m.ServerID != "" && !m.Lost {
			have = append(have, m.Node)
		}
	}
	return false, fmt.Sprintf("%s: not lost: as far as ConfigMap %s tells, %s has its file of cluster %s", kind, RecordName,
		strings.Join(have, ", "), d.ClusterID)
}

// giveUp is a record after which members make another cluster, once.
func (d Database) giveUp(kind Kind) Database {
	to := Database{Before: slices.Clone(d.Before), Held: kind == Southbound}
	if !d.Gone() {
		to.Before = append(to.Before, d.ClusterID)
	}
	return to
}

// giveUp writes that a cluster is given up. Members write the record, too: that is tried again unless the cluster is another one
// now, or one that was lost is not any more.
func (s Store) giveUp(ctx context.Context, kind Kind, seen Database) error {
	for {
		d, err := s.Get(ctx, kind)
		if err != nil {
			return err
		}
		if d.ClusterID != seen.ClusterID || seen.Lost() && !d.Lost() {
			return fmt.Errorf("give up cluster %s of %s: %w; look again", seen.ClusterID, kind, errMoved)
		}
		err = s.Swap(ctx, kind, d, d.giveUp(kind))
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := pause(ctx, look/10); err != nil {
			return err
		}
	}
}

// Records reads both databases' parts.
func (s Store) Records(ctx context.Context) (map[Kind]Database, error) {
	out := map[Kind]Database{}
	for _, kind := range []Kind{Northbound, Southbound} {
		d, err := s.Get(ctx, kind)
		if err != nil {
			return nil, err
		}
		out[kind] = d
	}
	return out, nil
}

// Progress tells of a rebuild while it goes on.
type Progress struct {
	// Done: a stage is done, after Took. Else it waits, so long already.
	Done bool
	Took time.Duration
	// Text is the stage, or what it waits for.
	Text string
}

// NodesName is the DaemonSet of nodes' switches.
const NodesName = "atoll-ovn-node"

// Rebuild has databases made anew and waits until they are complete and nodes are back. It may be called again after it was cut short.
// Everything is done by others: members make clusters, the leading controller fills the northbound database and opens the southbound one
// to nodes when that has followed.
func Rebuild(ctx context.Context, s Store, plan RebuildPlan, say func(Progress)) error {
	for _, kind := range plan.Give {
		if err := s.giveUp(ctx, kind, plan.seen[kind]); err != nil {
			return err
		}
	}
	for _, stage := range []struct {
		name string
		look func(context.Context, Store) (missing string, err error)
	}{
		{"members have made the clusters", clustersMade},
		{"the northbound database is compiled from Kubernetes, and the southbound one has followed", opened},
		{"nodes are connected", nodesBack},
	} {
		began, said := time.Now(), ""
		for {
			missing, err := stage.look(ctx, s)
			if err != nil && ctx.Err() == nil {
				missing = err.Error()
			}
			if missing == "" && err == nil {
				break
			}
			if missing != said {
				said = missing
				say(Progress{Text: missing, Took: time.Since(began)})
			}
			if pause(ctx, look) != nil {
				return fmt.Errorf("wait until %s: %s (the rebuild goes on by itself; call this again to wait)", stage.name, said)
			}
		}
		say(Progress{Done: true, Text: stage.name, Took: time.Since(began)})
	}
	return nil
}

// clustersMade says what is missing until every member that is known has joined.
func clustersMade(ctx context.Context, s Store) (string, error) {
	records, err := s.Records(ctx)
	if err != nil {
		return "", err
	}
	for _, kind := range []Kind{Northbound, Southbound} {
		d := records[kind]
		if d.Gone() {
			return fmt.Sprintf("%s: waiting for a member to make the cluster (pods of DaemonSet atoll-ovn-central)", kind), nil
		}
		for _, m := range d.Members {
			if m.ServerID == "" || m.Lost {
				return fmt.Sprintf("%s: waiting for member %s to join", kind, m.Node), nil
			}
		}
	}
	return "", nil
}

// opened says what is missing until nodes are served.
func opened(ctx context.Context, s Store) (string, error) {
	d, err := s.Get(ctx, Southbound)
	if err != nil {
		return "", err
	}
	if d.Held {
		return "waiting for the leading atoll-controller (its log tells what it does: kubectl -n atoll-system logs -l " +
			"app.kubernetes.io/name=atoll-controller)", nil
	}
	return "", nil
}

// nodesBack asks the DaemonSet of nodes, whose pods are ready when their ovn-controller is connected.
func nodesBack(ctx context.Context, s Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	set, err := s.Client.AppsV1().DaemonSets(s.Namespace).Get(ctx, NodesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // Nodes' switches are somebody else's.
	}
	if err != nil {
		return "", fmt.Errorf("read DaemonSet %s: %w", NodesName, err)
	}
	if st := set.Status; st.NumberReady < st.DesiredNumberScheduled {
		return fmt.Sprintf("waiting for nodes: %d of %d are connected", st.NumberReady, st.DesiredNumberScheduled), nil
	}
	return "", nil
}
