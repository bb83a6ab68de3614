package install

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// configName is the one AtollConfig that there may be.
const configName = "cluster"

var (
	serviceCIDRKind = schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}
	serviceKind     = schema.GroupKind{Kind: "Service"}
	configKind      = schema.GroupKind{Group: "atoll.dev", Kind: "AtollConfig"}
)

// serviceRanges are the ranges of Services that the cluster tells of. Before Kubernetes 1.33 it tells of none.
func (c *Cluster) serviceRanges(ctx context.Context) (out []netip.Prefix, err error) {
	found, err := listAs[networkingv1.ServiceCIDR](ctx, c, serviceCIDRKind, "", "")
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		for _, text := range one.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("read ServiceCIDR %s: %w", one.Name, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// dnsAddresses are those of the Service by which clusters commonly have their DNS.
func (c *Cluster) dnsAddresses(ctx context.Context) (out []netip.Addr, err error) {
	o, err := c.get(ctx, serviceKind, "kube-system", "kube-dns")
	if err != nil || o == nil {
		return nil, err
	}
	var s corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	for _, text := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out, nil
}

// A range around an address of a node's is as large as subnets commonly are, so that nodes that come later are in it, too.
const (
	nodeBits4, nodeBits6 = 24, 64
	// mostNodeRanges is how many ranges there are of each family at most: AtollConfigs have 64.
	mostNodeRanges = 32
)

// nodeRanges are ranges around all addresses by which the cluster says that nodes and API servers can be reached.
func (c *Cluster) nodeRanges(ctx context.Context) ([]netip.Prefix, error) {
	nodes, err := listAs[corev1.Node](ctx, c, nodeKind, "", "")
	if err != nil {
		return nil, err
	}
	all, err := c.apiAddresses(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		all = append(all, addressesOf(n)...)
	}
	return around(all), nil
}

// apiAddresses are those at which API servers say that they can be reached.
func (c *Cluster) apiAddresses(ctx context.Context) (out []netip.Addr, err error) {
	found, err := listAs[discoveryv1.EndpointSlice](ctx, c, sliceKind, "default", discoveryv1.LabelServiceName+"=kubernetes")
	if err != nil {
		return nil, err
	}
	for _, slice := range found {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					out = append(out, a)
				}
			}
		}
	}
	return out, nil
}

// around is the ranges around addresses, sorted. They are wider where there would be too many.
func around(addresses []netip.Addr) (out []netip.Prefix) {
	for _, family := range []struct {
		is   func(netip.Addr) bool
		bits int
	}{{netip.Addr.Is4, nodeBits4}, {netip.Addr.Is6, nodeBits6}} {
		for bits := family.bits; ; bits-- {
			var ranges []netip.Prefix
			for _, a := range addresses {
				if a = a.Unmap(); family.is(a) {
					ranges = append(ranges, netip.PrefixFrom(a, bits).Masked())
				}
			}
			slices.SortFunc(ranges, netip.Prefix.Compare)
			if ranges = slices.Compact(ranges); len(ranges) <= mostNodeRanges {
				out = append(out, ranges...)
				break
			}
		}
	}
	return out
}

// valuesInForce are the values of an installation that is there; none, if there is none. The version is not among them.
func (c *Cluster) valuesInForce(ctx context.Context) (v Values, err error) {
	config, err := c.get(ctx, configKind, "", configName)
	if err != nil {
		return v, err
	}
	if config != nil {
		r, err := readRanges(config)
		if err != nil {
			return v, err
		}
		v.ServiceCIDRs, v.PodCIDRs, v.NodeCIDRs, v.DNSAddresses = r.services, r.pods, r.nodes, r.dns
	}
	controller, err := c.get(ctx, deploymentKind, system, controllerName)
	if err != nil || controller == nil {
		return v, err
	}
	eachContainer(controller, func(container map[string]any) {
		image, _ := container["image"].(string)
		if at := strings.LastIndex(image, "/"); at > 0 && image[:at+1] != publicImages {
			v.Registry = image[:at]
		}
	})
	return v, nil
}

// waitSettings waits until the controller has taken the AtollConfig.
func (c *Cluster) waitSettings(ctx context.Context, steps Steps, p *Plan) error {
	return until(ctx, steps, func() (string, error) {
		for _, wanted := range p.Objects {
			if !isKind(wanted, configKind.Group, configKind.Kind) {
				continue
			}
			o, err := c.get(ctx, configKind, "", wanted.GetName())
			if err != nil {
				return "", err
			}
			if o == nil {
				return "", fmt.Errorf("%w: somebody has deleted %s", errRefused, nameOf(wanted))
			}
			seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			if seen < o.GetGeneration() {
				return "the controller has not looked at " + nameOf(o) + " yet", nil
			}
			if !conditionTrue(o, "Valid") {
				return nameOf(o) + " is not in force: " + messageOf(o, "Valid"), nil
			}
		}
		return "", nil
	})
}

// messageOf is what a condition says.
func messageOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range conditions {
		if condition, ok := one.(map[string]any); ok && condition["type"] == kind {
			if text, ok := condition["message"].(string); ok {
				return short(text)
			}
		}
	}
	return "it has no condition " + kind
}
