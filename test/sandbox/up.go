package sandbox

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Time limits of what Up waits for. On a quiet machine each takes a few seconds; a machine of two busy cores
// needs several times that.
const (
	placeLimit  = 20 * time.Second
	daemonLimit = 2 * time.Minute
	nodesLimit  = 2 * time.Minute
)

// Up makes the sandbox that the options describe, or finds that it runs already. Progress goes to out. What an
// earlier, broken or interrupted run left is removed first. When Up fails, what it made stays for inspection;
// the next Up or Down removes it.
func Up(ctx context.Context, opts Options, out io.Writer) (*Sandbox, error) {
	opts, err := opts.withDefaults()
	if err == nil {
		opts, err = opts.locate()
	}
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, opts.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if running, err := alreadyUp(ctx, opts); running != nil || err != nil {
		if err == nil {
			fmt.Fprintf(out, "The sandbox runs already: %d nodes, state in %s.\n", opts.Nodes, opts.State)
		}
		return running, err
	}

	u := &starter{}
	steps := progress.New(out, 0)
	phases := u.phases(opts, steps)
	steps.Expect(parts.Steps + len(phases))
	made, err := parts.Gather(ctx, need(opts), steps)
	if err != nil {
		return nil, err
	}
	u.Sandbox = &Sandbox{newRecord(opts)}
	u.record.Parts = made
	for _, phase := range phases {
		if err := steps.Do(phase.title, func() error { return phase.run(ctx) }); err != nil {
			return nil, fmt.Errorf("%s: %w", phase.title, err)
		}
	}
	u.record.Complete = true
	if err := u.record.save(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "The sandbox is up after %s.\n", progress.Round(steps.Elapsed()))
	return u.Sandbox, nil
}

// Gather makes and fetches the parts of a sandbox without starting anything.
func Gather(ctx context.Context, opts Options, out io.Writer) error {
	opts, err := opts.withDefaults()
	if err == nil {
		opts, err = opts.locate()
	}
	if err != nil {
		return err
	}
	_, err = parts.Gather(ctx, need(opts), progress.New(out, parts.Steps))
	return err
}

func need(opts Options) parts.Need {
	return parts.Need{
		Cache: opts.Cache, Source: opts.Source,
		KubernetesBin: opts.KubernetesBin, ContainerdBin: opts.ContainerdBin,
		Etcd: opts.Etcd, Runc: opts.Runc, OVNPrefix: opts.OVNPrefix,
	}
}

// alreadyUp returns the sandbox if a complete one runs, with its nodes and daemons started that were stopped. One
// that is not what was asked for is an error: it may be in use. It returns nil if there is none, or if its control
// plane has ended, which nothing can bring back as it was.
func alreadyUp(ctx context.Context, opts Options) (*Sandbox, error) {
	s, err := Open(opts.State)
	if err != nil || !s.record.Complete || s.record.Options.Name != opts.Name {
		return nil, nil // then there is nothing to keep
	}
	limited, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	for _, name := range []string{Central, Outside} {
		if !s.isOn(limited, name) {
			return nil, nil
		}
	}
	if s.record.Options != opts {
		return nil, fmt.Errorf("start sandbox: one with other options runs (%d nodes, programs of %s); atoll-sandbox down ends it",
			s.record.Options.Nodes, s.record.Options.Bin)
	}
	for _, name := range s.Nodes() {
		if err := s.powerOn(ctx, name); err != nil {
			return nil, fmt.Errorf("mend sandbox: %w", err)
		}
	}
	daemons := map[string][]Daemon{}
	for _, name := range s.Places() {
		if daemons[name], err = s.Daemons(ctx, name); err != nil {
			return nil, fmt.Errorf("mend sandbox: %w", err)
		}
		for _, d := range daemons[name] {
			if d.Held {
				if err := s.Start(ctx, name, d.Name); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, name := range s.Places() {
		for _, d := range daemons[name] {
			if err := s.waitDaemon(ctx, name, d.Name); err != nil {
				return nil, fmt.Errorf("mend sandbox: %w", err)
			}
		}
	}
	if !opts.Bare {
		err = s.waitNodes(ctx, ready)
	}
	return s, err
}

// phase is one step of starting.
type phase struct {
	title string
	run   func(context.Context) error
}

// starter is a sandbox in the making.
type starter struct {
	*Sandbox
	images chan error
}

// phases are the steps of starting, in order. Daemons start early and are waited for late, so that they
// start beside each other.
func (u *starter) phases(opts Options, steps *progress.Steps) []phase {
	list := []phase{
		{"clear what an earlier run left", u.clear},
		{"certificates and configuration", u.prepare},
		{"network namespaces and cgroups", u.makeGround},
		{"places: control plane, outside", u.launch},
		{"images on the nodes, which start", u.launchNodes},
		{"etcd and Kubernetes API", u.waitAPI},
		{"the outside", u.waitOutside},
		{"nodes registered", u.waitRegistered},
	}
	if opts.Bare {
		return list
	}
	return append(list,
		phase{"atoll install", func(ctx context.Context) error { return u.install(ctx, steps) }},
		phase{"nodes Ready", func(ctx context.Context) error { return u.waitNodes(ctx, ready) }})
}

func (u *starter) clear(ctx context.Context) error {
	return remove(ctx, u.record.Options, func(_ string, step func() error) error { return step() })
}

func (u *starter) prepare(ctx context.Context) error {
	if err := makeState(u.record); err != nil {
		return err
	}
	if err := makeFiles(u.record); err != nil {
		return err
	}
	u.images = make(chan error, 1)
	go func() { u.images <- u.placeImages(ctx) }() // ends with the images; waitImages takes the result
	return nil
}

func (u *starter) makeGround(context.Context) error {
	if err := makeNamespaces(u.record); err != nil {
		return err
	}
	return makeCgroups(u.record)
}

// launch starts the first process of the control plane and of the outside, and waits until each answers.
func (u *starter) launch(ctx context.Context) error {
	return u.bootAll(ctx, centralSpec(u.record), outsideSpec(u.record))
}

// launchNodes does the same for the nodes, which have their images from the start.
func (u *starter) launchNodes(ctx context.Context) error {
	if err := u.waitImages(ctx); err != nil {
		return err
	}
	var specs []place.Spec
	for _, n := range nodesUpTo(u.record.Options.Nodes) {
		specs = append(specs, nodeSpec(u.record, n))
	}
	return u.bootAll(ctx, specs...)
}

func (u *starter) bootAll(ctx context.Context, specs ...place.Spec) error {
	for _, spec := range specs {
		if err := u.boot(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// waitAPI waits for the API, and lets the kubelets register.
func (u *starter) waitAPI(ctx context.Context) error {
	if err := u.waitDaemons(ctx, []string{Central}, "etcd", "kube-apiserver"); err != nil {
		return err
	}
	for _, node := range u.Nodes() {
		for _, daemon := range []string{"kubelet", "kube-proxy"} {
			if err := u.Start(ctx, node, daemon); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *starter) waitOutside(ctx context.Context) error {
	return u.waitDaemons(ctx, []string{Outside}, "dns", "netprobe")
}

func (u *starter) waitImages(ctx context.Context) error {
	select {
	case err := <-u.images:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *starter) waitRegistered(ctx context.Context) error {
	if err := u.waitDaemons(ctx, []string{Central}, "kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	if err := u.waitDaemons(ctx, u.Nodes(), "kubelet", "kube-proxy"); err != nil {
		return err
	}
	if err := u.waitNodes(ctx, registered); err != nil {
		return err
	}
	return u.labelNodes(ctx)
}
