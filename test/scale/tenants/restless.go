package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// restlessName is the tenant, Network and namespace where things change without a pause; calmName is another tenant's, who makes pods.
	restlessName, calmName = "restless", "calm"
	// calmPods are made one at a time in each spell, and so often where nothing else changes.
	calmPods  = 20
	calmPause = time.Second
)

// restless is what pods of a tenant wait for while another tenant changes things without a pause.
type restless struct {
	Networks int     `json:"networks"`
	Spells   []spell `json:"spells"`
}

// spell is a time in which pods of the calm tenant are made one at a time.
type spell struct {
	// What is what the restless tenant does meanwhile; empty: nothing.
	What string `json:"what"`
	// Seconds from each pod's creation until its port is in the northbound database, and until it is in the southbound one with its flows.
	RowSeconds      []float64 `json:"rowSeconds"`
	CarriedSeconds  []float64 `json:"carriedSeconds"`
	ChangesASecond  float64   `json:"changesPerSecond"`
	RequestsASecond float64   `json:"requestsPerSecond"`
	// Refused is the share of requests that the API server answered with 429.
	Refused float64 `json:"refused"`
	// Missing: the last pod was not there as late as that, and no more were made.
	Missing bool `json:"missing"`
	// Northd and Controller are how many processors each used.
	Northd     float64 `json:"northdProcessors"`
	Controller float64 `json:"controllerProcessors"`
	// AnewASecond is how often ovn-northd computed all logical flows anew.
	AnewASecond float64 `json:"flowsAnewPerSecond"`
	Others      float64 `json:"processorsOfOthers"`
}

// restless has one tenant change policies without a pause, and then labels, and measures what pods of another tenant wait for.
func (m *measuring) restless(ctx context.Context) error {
	if m.o.restless <= 0 {
		return nil
	}
	bindings, err := m.WatchBindings(ctx)
	if err != nil {
		return err
	}
	defer bindings.Close()
	calm := lab.Network(calmName, subnet())
	calm.Spec.Tenant = calmName
	if err := m.make(ctx, 1, calm); err != nil {
		return err
	}
	// As most tenants do, this one isolates its pods: their ports come with places in port groups.
	deny := policyFor("deny", metav1.LabelSelector{}, 0, 80)
	if _, err := m.Kube.NetworkingV1().NetworkPolicies(calmName).Create(ctx, deny, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make policy: %w", err)
	}
	r, err := m.startRestless(ctx)
	if err != nil {
		return err
	}
	m.out.Restless.Networks = m.networks
	for _, k := range r.kinds() {
		if err := m.kind(ctx, r, bindings, k); err != nil {
			return fmt.Errorf("a tenant that %s: %w", k.what, err)
		}
		m.progress.Done("a tenant that " + k.what)
	}
	return nil
}

// kind measures one kind of changes, and before it nothing.
func (m *measuring) kind(ctx context.Context, r *restlessTenant, bindings *lab.Ports, k kind) error {
	if err := k.begin(ctx); err != nil {
		return err
	}
	for _, do := range []change{nil, k.change} {
		s, err := m.spell(ctx, r, bindings, do)
		if err != nil {
			return err
		}
		if do != nil {
			s.What = k.what
		}
		m.progress.Say("%s", s.waits())
		m.out.Restless.Spells = append(m.out.Restless.Spells, s)
	}
	return r.tidy(ctx)
}

// idle waits until the controller has nothing to do, and ovn-northd has carried on what there is.
func (m *measuring) idle(ctx context.Context) error {
	last, at := time.Duration(-1), time.Now()
	if err := harness.Await(ctx, "a controller that has nothing to do", func(context.Context) (bool, error) {
		if last >= 0 && time.Since(at) < time.Second {
			return false, nil
		}
		used, err := m.Controller.CPU()
		calm := last >= 0 && used-last < time.Second/10
		last, at = used, time.Now()
		return calm, err
	}); err != nil {
		return err
	}
	return m.synced(ctx)
}

// spell measures pods of the calm tenant while the restless one does something, or nothing.
func (m *measuring) spell(ctx context.Context, r *restlessTenant, bindings *lab.Ports, do change) (out spell, err error) {
	if err := m.idle(ctx); err != nil {
		return out, err
	}
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return out, err
	}
	before, err := m.effort(ctx)
	if err != nil {
		return out, err
	}
	pause, stop := calmPause, func() error { return nil }
	if do != nil {
		pause, stop = m.o.restless/calmPods, r.start(ctx, do)
	}
	start := time.Now()
	err = m.calm(ctx, bindings, pause, &out)
	seconds := time.Since(start).Seconds()
	after, problem := m.effort(ctx)
	if err = errors.Join(err, stop(), problem); err != nil {
		return out, err
	}
	out.Northd, out.Controller = (after.northd-before.northd).Seconds()/seconds, (after.controller-before.controller).Seconds()/seconds
	out.AnewASecond = float64(after.anew-before.anew) / seconds
	if do != nil {
		requests := float64(r.answers.all.Load())
		out.ChangesASecond, out.RequestsASecond = float64(r.changes.Load())/seconds, requests/seconds
		out.Refused = float64(r.answers.refused.Load()) / max(requests, 1)
	}
	out.Others, err = meter.Others()
	return out, err
}

// calm makes pods of the calm tenant one at a time, at least pause apart: fewer where that takes twice as long as it should.
func (m *measuring) calm(ctx context.Context, bindings *lab.Ports, pause time.Duration, out *spell) error {
	tick, began := time.NewTicker(pause), time.Now()
	defer tick.Stop()
	for range calmPods {
		if time.Since(began) > 2*calmPods*pause {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		m.made++
		p := lab.Pod{
			Key: model.PodKey{Namespace: calmName, Name: fmt.Sprintf("pod-%d", m.made)}, Node: fmt.Sprintf("node-%03d", m.made%m.o.nodes),
		}
		start := time.Now()
		if err := m.CreatePod(ctx, p); err != nil {
			return fmt.Errorf("make pod: %w", err)
		}
		for _, at := range []struct {
			ports *lab.Ports
			took  *[]float64
		}{{m.Ports, &out.RowSeconds}, {bindings, &out.CarriedSeconds}} {
			seconds, err := m.awaitPort(ctx, at.ports, p.Port(), start)
			if out.Missing = errors.Is(err, errLate); err != nil && !out.Missing {
				return err
			}
			*at.took = append(*at.took, seconds)
			if !out.Missing {
				continue
			}
			if at.ports == m.Ports {
				// Without a row it is not carried on either.
				out.CarriedSeconds = append(out.CarriedSeconds, seconds)
			}
			return nil
		}
	}
	return nil
}

// errLate: a port was not there in time.
var errLate = errors.New("the port is late")

// awaitPort waits for a port that was asked for at start, for as long as a spell lasts, and returns how long that took.
func (m *measuring) awaitPort(ctx context.Context, ports *lab.Ports, port string, start time.Time) (float64, error) {
	limit, cancel := context.WithDeadlineCause(ctx, start.Add(m.o.restless), errLate)
	defer cancel()
	if err := ports.Await(limit, []string{port}, ports.Seen, m.Controller.Done()); err != nil {
		return time.Since(start).Seconds(), errors.Join(err, context.Cause(limit))
	}
	seen, _ := ports.Seen(port)
	return seen.Sub(start).Seconds(), nil
}

// effort is what ovn-northd and the controller have done until now.
type effort struct {
	northd, controller time.Duration
	// anew is how often ovn-northd has computed all logical flows anew.
	anew int
}

func (m *measuring) effort(ctx context.Context) (out effort, err error) {
	if out.northd, err = lab.FineCPUOf(m.Database.PID("northd")); err != nil {
		return out, err
	}
	if out.controller, err = m.Controller.CPU(); err != nil {
		return out, err
	}
	text, err := m.Database.Ask(ctx, "northd", "inc-engine/show-stats")
	if err != nil {
		return out, err
	}
	out.anew, err = recomputed(text, "lflow")
	return out, err
}

// recomputed is how often a node of ovn-northd's engine was computed anew, by what ovn-northd says of all.
func recomputed(stats, node string) (int, error) {
	name := ""
	for line := range strings.Lines(stats) {
		line = strings.TrimSpace(line)
		if found, is := strings.CutPrefix(line, "Node: "); is {
			name = found
		}
		if times, is := strings.CutPrefix(line, "- recompute:"); is && name == node {
			return strconv.Atoi(strings.TrimSpace(times))
		}
	}
	return 0, fmt.Errorf("read counters of ovn-northd: there is no %s", node)
}

// print writes each spell beside the quiet one before it.
func (r restless) print(t harness.Table) {
	if len(r.Spells) > 0 {
		t.Gap()
	}
	var quiet spell
	for _, s := range r.Spells {
		if s.What == "" {
			quiet = s
			t.Figure(fmt.Sprintf("a pod among %d Networks, nothing else changes", r.Networks), s.waits(), s.Others)
			t.Figure("  processors", s.processors(), harness.Nobody)
			continue
		}
		t.Figure("a pod while another tenant "+s.What, s.waits(), s.Others)
		was, is := seriesOf(quiet.CarriedSeconds), seriesOf(s.CarriedSeconds)
		t.Figure("  of the quiet before",
			fmt.Sprintf("%.1f times the median, %.1f times the longest", is.median/was.median, is.most/was.most), harness.Nobody)
		t.Figure("  that tenant", fmt.Sprintf("%.0f changes/s, %.1f %% of %.0f requests/s refused (429)",
			s.ChangesASecond, 100*s.Refused, s.RequestsASecond), harness.Nobody)
		t.Figure("  processors", s.processors(), harness.Nobody)
	}
}

func (s spell) waits() string {
	rows, carried := seriesOf(s.RowSeconds), seriesOf(s.CarriedSeconds)
	text := fmt.Sprintf("%d pods: row median %.3f s, at most %.3f s; by northd median %.3f s, at most %.3f s",
		len(s.CarriedSeconds), rows.median, rows.most, carried.median, carried.most)
	if s.Missing {
		text += fmt.Sprintf("; pod %d was not there then", len(s.CarriedSeconds))
	}
	return text
}

func (s spell) processors() string {
	return fmt.Sprintf("northd %.2f, controller %.2f; %.1f times/s all flows anew", s.Northd, s.Controller, s.AnewASecond)
}
