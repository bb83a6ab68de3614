package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options are what an installation or an upgrade is asked for.
type Options struct {
	Source Source
	Values Values
	// Wait is whether the programs and nodes are waited for.
	Wait bool
	// Timeout bounds the waits together.
	Timeout time.Duration
}

// Plan is what would be written: the objects with all values, members of the set.
type Plan struct {
	Objects []*unstructured.Unstructured
	// Version is that of the images.
	Version string
	source  Source
	ranges  ranges
}

// Prepare renders the source and looks up values that nobody set in the cluster. c may be nil: then all needed values must be
// set. An error names the missing flag.
func Prepare(ctx context.Context, c *Cluster, o Options) (*Plan, error) {
	objects, err := Render(o.Source)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s has no objects", o.Source)
	}
	values := o.Values
	if o.Source.Dir == "" {
		if values, err = complete(ctx, c, values); err != nil {
			return nil, err
		}
	}
	if err := values.set(objects); err != nil {
		return nil, err
	}
	used, err := rangesOf(objects)
	if err != nil {
		return nil, err
	}
	p := &Plan{Objects: objects, Version: versionOf(objects), source: o.Source, ranges: used}
	join(objects, p.Version)
	return p, nil
}

// complete finds what an overlay that the program brings along cannot know: what is in force already, or else what the cluster tells.
func complete(ctx context.Context, c *Cluster, v Values) (Values, error) {
	if c != nil {
		inForce, err := c.valuesInForce(ctx)
		if err != nil {
			return v, err
		}
		v = v.over(inForce)
	}
	if v.Tag == "" {
		if v.Tag = ownTag(); v.Tag == "" {
			return v, errors.New("this program does not know its version: name the images' tag with --image-tag")
		}
	}
	var err error
	if len(v.ServiceCIDRs) == 0 && c != nil {
		if v.ServiceCIDRs, err = c.serviceRanges(ctx); err != nil {
			return v, err
		}
	}
	if len(v.ServiceCIDRs) == 0 {
		return v, errors.New(
			"the cluster does not say from which range its Services have their addresses (there are no ServiceCIDR objects): name the API " +
				"server's --service-cluster-ip-range with --service-cidrs")
	}
	if len(v.DNSAddresses) == 0 && c != nil {
		if v.DNSAddresses, err = c.dnsAddresses(ctx); err != nil {
			return v, err
		}
	}
	if len(v.DNSAddresses) == 0 {
		return v, errors.New(
			"there is no Service kube-system/kube-dns: name the address that kubelets give to pods (clusterDNS) with --dns-addresses")
	}
	if len(v.NodeCIDRs) == 0 && c != nil {
		if v.NodeCIDRs, err = c.nodeRanges(ctx); err != nil {
			return v, err
		}
	}
	return v, nil
}

// versionOf is the tag of the controller's image, or of the first workload's.
func versionOf(objects []*unstructured.Unstructured) (version string) {
	for _, o := range objects {
		if !isWorkload(o) || version != "" && o.GetName() != controllerName {
			continue
		}
		eachContainer(o, func(c map[string]any) {
			if image, ok := c["image"].(string); ok {
				version = cmp.Or(tagOf(image), version)
			}
		})
	}
	return version
}

// tagOf is the tag of an image's name; empty, if it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// StepsOf is how many steps Run takes for a plan.
func StepsOf(p *Plan, o Options) int {
	n := int(stages) + 1
	if o.Wait {
		n += len(p.workloads()) + 2
	}
	return n
}

func (p *Plan) workloads() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.Objects), func(o *unstructured.Unstructured) bool { return !isWorkload(o) })
}

// Manner is how programs that run are replaced.
type Manner bool

const (
	// AtOnce applies all programs, and waits for all.
	AtOnce Manner = false
	// OneByOne waits for each program before the next.
	OneByOne Manner = true
)

// Run applies a plan, waits, and removes what the plan has no more.
func Run(ctx context.Context, c *Cluster, p *Plan, o Options, how Manner, steps Steps) ([]Outcome, error) {
	var all []Outcome
	old, err := c.readRecord(ctx)
	if err != nil {
		return nil, err
	}
	for at, objects := range split(p.Objects) {
		if stage(at) == programs && how == OneByOne {
			break
		}
		err := steps.Do(stageTitles[at], func() error {
			outcomes, err := c.applyAll(ctx, objects)
			if err != nil {
				return err
			}
			all = append(all, outcomes...)
			steps.Note("%s", cmp.Or(Summary(outcomes), "none"))
			if stage(at) == foundations {
				if err := c.declare(ctx, p, old, both); err != nil {
					return err
				}
				return c.waitEstablished(ctx, steps, objects)
			}
			return nil
		})
		if err != nil {
			return all, err
		}
	}
	// An uninstallation that was broken off has left it.
	if err := c.taint(ctx, false); err != nil {
		return all, err
	}
	bounded, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	outcomes, err := c.roll(bounded, p, o, how, steps)
	all = append(all, outcomes...)
	if err != nil {
		return all, err
	}
	err = steps.Do("what this version has no more", func() error {
		outcomes, err := c.prune(ctx, p, old, forReal)
		all = append(all, outcomes...)
		for _, one := range outcomes {
			steps.Note("%s %s: %s", one.What, one.Object, one.Why)
		}
		if err != nil {
			return err
		}
		return c.declare(ctx, p, nil, onlyNew)
	})
	return all, err
}

// roll waits for the programs; one by one, it applies each when the one before is ready.
func (c *Cluster) roll(ctx context.Context, p *Plan, o Options, how Manner, steps Steps) (all []Outcome, err error) {
	workloads := p.workloads()
	if how == OneByOne {
		rest := split(p.Objects)[programs]
		rest = slices.DeleteFunc(rest, func(o *unstructured.Unstructured) bool {
			return isWorkload(o) || slices.ContainsFunc(workloads, func(w *unstructured.Unstructured) bool { return leadsTo(o, w) })
		})
		if err := steps.Do(stageTitles[programs], func() error {
			all, err = c.applyAll(ctx, rest)
			return err
		}); err != nil {
			return all, err
		}
		slices.SortStableFunc(workloads, func(a, b *unstructured.Unstructured) int { return turn(a) - turn(b) })
	}
	for _, w := range workloads {
		apply := func(objects ...*unstructured.Unstructured) error {
			if how == AtOnce {
				return nil
			}
			outcomes, err := c.applyAll(ctx, objects)
			all = append(all, outcomes...)
			return err
		}
		step := func() error {
			if err := apply(w); err != nil {
				return err
			}
			if o.Wait {
				if err := c.waitRolledOut(ctx, steps, w); err != nil {
					return fmt.Errorf("wait for %s: %w", nameOf(w), err)
				}
			}
			return apply(slices.DeleteFunc(slices.Clone(p.Objects), func(one *unstructured.Unstructured) bool { return !leadsTo(one, w) })...)
		}
		if how == AtOnce && !o.Wait {
			break
		}
		if err := steps.Do(w.GetKind()+" "+w.GetName(), step); err != nil {
			return all, err
		}
	}
	if !o.Wait {
		return all, nil
	}
	if err := steps.Do("nodes", func() error { return c.waitNodes(ctx, steps) }); err != nil {
		return all, fmt.Errorf("wait for nodes to be Ready: %w", err)
	}
	if err := steps.Do("settings in force", func() error { return c.waitSettings(ctx, steps, p) }); err != nil {
		return all, fmt.Errorf("wait for the AtollConfig to be in force: %w", err)
	}
	return all, nil
}

func turn(o *unstructured.Unstructured) int {
	if at := slices.Index(upgradeOrder, o.GetName()); at >= 0 {
		return at
	}
	return len(upgradeOrder)
}

func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) (all []Outcome, err error) {
	for _, o := range objects {
		one, err := c.apply(ctx, o, forReal)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// whose kinds and namespaces the set's parent names.
type whose bool

const (
	// both: while it is applied, members may be where they were and where they will be.
	both whose = true
	// onlyNew: afterwards only there.
	onlyNew whose = false
)

// declare writes the set's parent.
func (c *Cluster) declare(ctx context.Context, p *Plan, old *record, scope whose) error {
	r := record{Version: p.Version, Source: p.source.String()}
	r.kinds, r.namespaces = place(p.Objects)
	if scope == both && old != nil {
		r.kinds, r.namespaces = append(r.kinds, old.kinds...), append(r.namespaces, old.namespaces...)
		// It is that version until all is applied.
		r.Version = old.Version
	}
	_, err := c.apply(ctx, r.parent(), forReal)
	return err
}

// prune removes members that the plan does not have.
func (c *Cluster) prune(ctx context.Context, p *Plan, old *record, how writing) ([]Outcome, error) {
	if old == nil {
		return nil, nil
	}
	members, err := c.members(ctx, *old)
	if err != nil {
		return nil, err
	}
	gone, stay, remove, err := surplus(members, p.Objects, func(o *unstructured.Unstructured) (bool, error) { return c.hasObjects(ctx, o) })
	if err != nil || how == dryRun {
		return append(gone, stay...), err
	}
	for _, o := range remove {
		if err := c.remove(ctx, o); err != nil {
			return append(gone, stay...), err
		}
	}
	return append(gone, stay...), nil
}

// DryRun says what Run would do, by the server's word. Nothing is written.
func DryRun(ctx context.Context, c *Cluster, p *Plan) ([]Outcome, error) {
	old, err := c.readRecord(ctx)
	if err != nil {
		return nil, err
	}
	var all []Outcome
	for _, objects := range split(p.Objects) {
		for _, o := range objects {
			one, err := c.apply(ctx, o, dryRun)
			if err != nil {
				return all, err
			}
			all = append(all, one)
		}
	}
	outcomes, err := c.prune(ctx, p, old, dryRun)
	return append(all, outcomes...), err
}
