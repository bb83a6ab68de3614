package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/process/build"
)

// publicImages is where the manifests have their images from.
const publicImages = "ghcr.io/atoll-net/"

// Values are what people set. Everything else is set by a kustomization of one's own. The zero value of a field leaves what the
// manifests have.
type Values struct {
	// Registry takes the place of ghcr.io/atoll-net in the images' names.
	Registry string
	// Tag is the images'. With an overlay that the program brings along it is the program's own version if it is empty.
	Tag string
	// ServiceCIDRs are the API server's ranges of Services.
	ServiceCIDRs []netip.Prefix
	// PodCIDRs are the default Network's ranges, one of each family at most.
	PodCIDRs []netip.Prefix
	// NodeCIDRs are all by which nodes and the control plane can be reached.
	NodeCIDRs []netip.Prefix
	// DNSAddresses are what kubelets give to pods.
	DNSAddresses []netip.Addr
}

// over is v with what o leaves open.
func (v Values) over(o Values) Values {
	if v.Registry == "" {
		v.Registry = o.Registry
	}
	for _, f := range []struct{ to, from *[]netip.Prefix }{
		{&v.ServiceCIDRs, &o.ServiceCIDRs}, {&v.PodCIDRs, &o.PodCIDRs}, {&v.NodeCIDRs, &o.NodeCIDRs},
	} {
		if len(*f.to) == 0 {
			*f.to = *f.from
		}
	}
	if len(v.DNSAddresses) == 0 {
		v.DNSAddresses = o.DNSAddresses
	}
	return v
}

// ownTag is the tag of the images that were made from the same source as this program; empty if it does not know its version.
func ownTag() string {
	if v := build.Version(); semver.IsValid(v) {
		return strings.ReplaceAll(v, "+", "-")
	}
	return ""
}

// set writes the values into the objects, which it changes.
func (v Values) set(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		var err error
		switch {
		case isKind(o, "atoll.dev", "AtollConfig"):
			err = v.setConfig(o)
		case isKind(o, "atoll.dev", "Network") && o.GetName() == "default":
			err = v.setDefaultNetwork(o)
		default:
			eachContainer(o, func(c map[string]any) {
				if image, ok := c["image"].(string); ok {
					c["image"] = v.image(image)
				}
			})
		}
		if err != nil {
			return fmt.Errorf("set values of %s: %w", nameOf(o), err)
		}
	}
	return nil
}

// image is the name of an image with registry and tag as they are set. Images that are not ours stay as they are.
func (v Values) image(name string) string {
	rest, ours := strings.CutPrefix(name, publicImages)
	if !ours {
		return name
	}
	short, tag, _ := strings.Cut(rest, ":")
	if v.Tag != "" {
		tag = v.Tag
	}
	registry := publicImages
	if v.Registry != "" {
		registry = strings.TrimSuffix(v.Registry, "/") + "/"
	}
	return registry + short + ":" + tag
}

func (v Values) setConfig(o *unstructured.Unstructured) error {
	for _, f := range []struct {
		name string
		to   []netip.Prefix
	}{{"serviceCIDRs", v.ServiceCIDRs}, {"podCIDRs", v.PodCIDRs}, {"nodeCIDRs", v.NodeCIDRs}} {
		if len(f.to) > 0 {
			if err := unstructured.SetNestedStringSlice(o.Object, texts(f.to), "spec", f.name); err != nil {
				return err
			}
		}
	}
	if len(v.DNSAddresses) > 0 {
		return unstructured.SetNestedStringSlice(o.Object, texts(v.DNSAddresses), "spec", "dns", "addresses")
	}
	return nil
}

// setDefaultNetwork gives the first subnet of the default Network the ranges of pods.
func (v Values) setDefaultNetwork(o *unstructured.Unstructured) error {
	if len(v.PodCIDRs) == 0 {
		return nil
	}
	subnets, found, err := unstructured.NestedSlice(o.Object, "spec", "subnets")
	if err != nil {
		return err
	}
	if !found || len(subnets) == 0 {
		return errors.New("it has no subnets")
	}
	first, ok := subnets[0].(map[string]any)
	if !ok {
		return errors.New("its first subnet is not an object")
	}
	if err := unstructured.SetNestedStringSlice(first, texts(v.PodCIDRs), "cidrs"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(o.Object, subnets, "spec", "subnets")
}

// ranges are the ranges that objects were rendered with.
type ranges struct {
	services, pods, nodes, closed, faces []netip.Prefix
	dns                                  []netip.Addr
}

// rangesOf reads them from the AtollConfig among the objects.
func rangesOf(objects []*unstructured.Unstructured) (r ranges, err error) {
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return isKind(o, "atoll.dev", "AtollConfig") })
	if at < 0 {
		return r, errors.New("the kustomization has no AtollConfig: include dist/config, or write one (docs/api/atollconfig.md)")
	}
	return readRanges(objects[at])
}

// readRanges reads them from an AtollConfig.
func readRanges(o *unstructured.Unstructured) (r ranges, err error) {
	text, err := json.Marshal(o.Object["spec"])
	if err != nil {
		return r, err
	}
	var spec struct {
		ServiceCIDRs, PodCIDRs, NodeCIDRs, ClosedCIDRs []netip.Prefix
		FaceCIDRs                                      []netip.Prefix
		DNS                                            struct{ Addresses []netip.Addr }
	}
	spec.FaceCIDRs = defaultFaces()
	if err := json.Unmarshal(text, &spec); err != nil {
		return r, fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	return ranges{
		services: spec.ServiceCIDRs, pods: spec.PodCIDRs, nodes: spec.NodeCIDRs, closed: spec.ClosedCIDRs, faces: spec.FaceCIDRs,
		dns: spec.DNS.Addresses,
	}, nil
}

// defaultFaces are what the API server fills in as faceCIDRs of an AtollConfig that names none (dist/crds).
func defaultFaces() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}
}

// eachContainer calls f with each container of a workload. What is no workload has none.
func eachContainer(o *unstructured.Unstructured, f func(map[string]any)) {
	for _, list := range []string{"initContainers", "containers"} {
		containers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", list)
		all, _ := containers.([]any)
		for _, one := range all {
			if c, ok := one.(map[string]any); ok {
				f(c)
			}
		}
	}
}

func isKind(o *unstructured.Unstructured, group, kind string) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == group && gvk.Kind == kind
}

// nameOf is what a person calls an object.
func nameOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() != "" {
		return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	}
	return o.GetKind() + " " + o.GetName()
}

func texts[S fmt.Stringer](in []S) []string {
	out := make([]string, len(in))
	for i, one := range in {
		out[i] = one.String()
	}
	return out
}
