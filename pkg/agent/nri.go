package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// nriGrace is how long a pod waits for the runtime to take the plugin in, which it does within some milliseconds.
	nriGrace = 5 * time.Second
	// hostsSweepEvery is how often hosts files of pods that have gone are looked for.
	hostsSweepEvery = time.Minute
)

func (a *Agent) newNRI(config Config, registry prometheus.Registerer) (*nri.Plugin, error) {
	return nri.New(nri.Config{
		Socket:     config.NRISocket,
		KubeletDir: config.KubeletDir,
		HostsDir:   hostsDir(config),
		Lookup:     a.ownAddresses,
	}, registry, a.log)
}

// serveNRI answers the container runtime once the pods are known: an answer before would be a wrong one.
func (a *Agent) serveNRI(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.pods.known:
	}
	swept := make(chan struct{})
	defer func() { <-swept }()
	go func() {
		defer close(swept)
		a.sweepHosts(ctx)
	}()
	return a.nri.Run(ctx)
}

// sweepHosts removes hosts files of pods that have gone, until ctx ends.
func (a *Agent) sweepHosts(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) {
		err := a.nri.Sweep(func(podUID string) bool {
			_, lives := a.pods.getByUID(podUID)
			return lives
		})
		if err != nil {
			a.log.Warn("sweep of hosts files not complete", "error", err)
		}
	}, hostsSweepEvery)
}

// expectNRI gives the runtime time to take the plugin in before a pod that needs it has its network, and thus before
// its first container is made. A runtime that does not take it in keeps no pod from running.
func (a *Agent) expectNRI(ctx context.Context, p pod) {
	if a.nri == nil || a.nri.Connected() || len(pairsOf(p)) == 0 || !a.nri.Offered() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nriGrace)
	defer cancel()
	if !a.nri.Await(ctx) {
		a.log.Warn("a pod begins without NRI: its containers see its face instead of its own address", "pod", p.key)
	}
}

// ownAddresses finds the faces and own addresses of a pod that the runtime asks about.
func (a *Agent) ownAddresses(asked nri.Pod) (nri.Known, bool) {
	ref := cni.PodRef{Namespace: asked.Namespace, Name: asked.Name, UID: asked.UID}
	p, found := a.pods.get(ref.Key())
	if !found || !p.is(ref) {
		return nri.Known{}, false
	}
	known := nri.Known{UID: p.uid, Pairs: pairsOf(p)}
	if n, err := attachment.Parse(p.attachments, p.uid, model.DefaultInterface); err == nil {
		known.Elsewhere = a.world.Elsewhere(n)
	}
	return known, true
}

// pairsOf is a pod's faces, each with the own address that it stands for; none for a pod that is its own face.
func pairsOf(p pod) []nri.Pair {
	n, err := attachment.Parse(p.attachments, p.uid, model.DefaultInterface)
	if err != nil {
		return nil
	}
	var pairs []nri.Pair
	for i, face := range n.Faces {
		pairs = append(pairs, nri.Pair{Face: face, Own: n.Addresses[i].Addr()})
	}
	return pairs
}
