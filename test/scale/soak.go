package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

// The events of a soak come so far apart, and the controller lives at most so long.
const (
	soakEvery    = 5 * time.Millisecond
	longestLife  = 5 * time.Second
	soakNetworks = 20
)

// soakResult is what happened in a soak, and what the judge said of it.
type soakResult struct {
	Seconds float64 `json:"seconds"`
	Made    int     `json:"podsMade"`
	Deleted int     `json:"podsDeleted"`
	// Networks were deleted and made again, Ports taken out of their switches behind the controller's back.
	Networks int `json:"networksRemade"`
	Ports    int `json:"portsTakenAway"`
	Kills    int `json:"controllersKilled"`
	// Differences to what the objects ask for, in the end; Report is the judge's.
	Same   bool   `json:"same"`
	Report string `json:"report,omitempty"`
}

// soak lets random things happen while the controller is killed at random moments, and has `atoll check` judge
// what is left.
func (s *scale) soak(ctx context.Context) error {
	if s.o.soak == 0 {
		return nil
	}
	end := time.Now().Add(s.o.soak)
	life := time.NewTimer(0)
	defer life.Stop()
	tick := time.NewTicker(soakEvery)
	defer tick.Stop()
	world := &soakWorld{scale: s, gone: map[int]bool{}}
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-life.C:
			if err := s.replaceController(ctx); err != nil {
				return err
			}
			s.out.Soak.Kills++
			life.Reset(rand.N(longestLife))
		case <-s.Controller.Done():
			return s.Controller.Ended()
		case <-tick.C:
			if err := world.step(ctx); err != nil {
				return err
			}
		}
	}
	if err := world.restore(ctx); err != nil {
		return err
	}
	s.out.Soak.Seconds = s.o.soak.Seconds()
	return s.judge(ctx)
}

// replaceController kills the controller, with no chance to say goodbye, and starts another.
func (s *scale) replaceController(ctx context.Context) error {
	s.Controller.Kill()
	return s.startController(ctx)
}

// judge waits for the controller and has `atoll check` compare everything.
func (s *scale) judge(ctx context.Context) error {
	if err := s.awaitMetric(ctx, metricOwners, 1); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	kubeconfig, err := s.Kubeconfig("")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, s.o.check, "check",
		"--kubeconfig="+kubeconfig, "--nb-address="+s.Database.NBAddress(), "--timeout=3m").CombinedOutput()
	// Status 1 says that there are differences, any other that it could not tell.
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		return fmt.Errorf("run atoll check: %w\n%s", err, out)
	}
	if s.out.Soak.Same = err == nil; !s.out.Soak.Same {
		s.out.Soak.Report = string(out)
		s.progress.Say("%s", out)
	}
	return nil
}

// soakWorld is what a soak has made and not yet deleted.
type soakWorld struct {
	*scale
	alive []lab.Pod
	// gone are Networks that were deleted and not yet made again.
	gone map[int]bool
}

// step does one random thing.
func (w *soakWorld) step(ctx context.Context) error {
	switch dice := rand.IntN(1000); {
	case dice < 550 || len(w.alive) == 0:
		pods := w.next(1)
		w.alive = append(w.alive, pods...)
		w.out.Soak.Made++
		return w.CreatePod(ctx, pods[0])
	case dice < 950:
		i := rand.IntN(len(w.alive))
		p := w.alive[i]
		w.alive[i] = w.alive[len(w.alive)-1]
		w.alive = w.alive[:len(w.alive)-1]
		w.out.Soak.Deleted++
		return w.DeletePod(ctx, p.Key)
	case dice < 990:
		w.out.Soak.Ports++
		return w.takeAway(ctx, w.alive[rand.IntN(len(w.alive))].Key)
	default:
		return w.remake(ctx)
	}
}

// takeAway deletes a pod's port as an operator might by mistake. It need not be there at that moment.
func (w *soakWorld) takeAway(ctx context.Context, pod model.PodKey) error {
	_, err := w.Database.NBCtl(ctx, "--if-exists", "lsp-del", pod.First().PortName())
	return err
}

// remake deletes a Network, in one moment with its pods, or makes those again that have been deleted.
func (w *soakWorld) remake(ctx context.Context) error {
	if len(w.gone) > 0 {
		return w.restore(ctx)
	}
	i := rand.IntN(min(soakNetworks, w.o.networks))
	name, now := networkName(i), int64(0)
	w.gone[i] = true
	w.out.Soak.Networks++
	w.alive = slices.DeleteFunc(w.alive, func(p lab.Pod) bool { return p.Key.Namespace == name })
	if err := w.Networks.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Network: %w", err)
	}
	err := w.Kube.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete pods of %s: %w", name, err)
	}
	return nil
}

// restore makes the Networks again that have gone. One that is still on its way out waits for its pods.
func (w *soakWorld) restore(ctx context.Context) error {
	for i := range w.gone {
		name := networkName(i)
		_, err := w.Networks.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for Network: %w", err)
		}
		if err := w.Apply(ctx, lab.Network(name, subnets()...)); err != nil {
			return fmt.Errorf("make Network again: %w", err)
		}
		delete(w.gone, i)
	}
	return nil
}
