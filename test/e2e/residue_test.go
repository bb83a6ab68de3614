//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// sweptWithin is how long a node may take to be as its pods need it: the sweep after a restart, or the next one.
const sweptWithin = 90 * time.Second

// checkNodes compares what is on each node with what its pods need: ports of the bridge, links, network namespaces,
// routes and elements of nftables. Nothing may be too many, and nothing missing.
func (c *suite) checkNodes(t *testing.T) {
	t.Helper()
	for _, node := range c.Box.Nodes() {
		cluster.Eventually(t, sweptWithin, node+" as its pods need it", func(ctx context.Context) error {
			want, err := c.needed(ctx, node)
			if err != nil {
				return err
			}
			got, err := c.present(ctx, node)
			if err == nil && !slices.Equal(want, got) {
				err = fmt.Errorf("difference (-needed +there):\n%s", cmp.Diff(want, got))
			}
			return err
		})
	}
}

// needed is what the pods of a node need there, a line for each thing.
func (c *suite) needed(ctx context.Context, node string) ([]string, error) {
	list, err := c.Clients.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	all := []string{
		"link atoll0", "link atoll1", "link " + porthole.NodePort, "link " + porthole.EdgePort, "port " + porthole.NodePort,
		"port " + porthole.EdgePort,
	}
	for _, p := range list.Items {
		if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		var attachments []model.Attachment
		if err := json.Unmarshal([]byte(p.Annotations[model.AnnotationAttachments]), &attachments); err != nil || len(attachments) != 1 {
			return nil, fmt.Errorf("%s/%s has attachments %v: %w", p.Namespace, p.Name, attachments, err)
		}
		all = append(all, "link of pod "+string(p.UID), "port of pod "+string(p.UID), "namespace of a pod")
		a := attachments[0]
		if len(a.Faces) == 0 {
			continue
		}
		id := porthole.IDOf(a.NetworkUID)
		all = append(all, "link "+id.Name(), "link "+id.HostLink(), "port "+id.Name(), "namespace "+id.Name())
		for i, face := range a.Faces {
			own := a.Addresses[i].Addr()
			v := map[bool]string{true: "4", false: "6"}[face.Is4()]
			all = append(all, fmt.Sprintf("route %s by %s", face, id.HostLink()), fmt.Sprintf("element %s pods%s %s", id, v, own),
				fmt.Sprintf("element %s own%s %s to %s", id, v, face, own), fmt.Sprintf("element %s face%s %s to %s", id, v, own, face))
		}
	}
	return counted(all), nil
}

// counted is a sorted list in which what pods share is there once.
func counted(lines []string) []string {
	slices.Sort(lines)
	var out []string
	for i, line := range lines {
		if i == 0 || lines[i-1] != line || line == "namespace of a pod" {
			out = append(out, line)
		}
	}
	return out
}

// present is what of ours is on a node, in the words of needed.
func (c *suite) present(ctx context.Context, node string) ([]string, error) {
	var all []string
	for _, look := range []func(context.Context, string) ([]string, error){c.ports, c.linksOf, c.namespaces, c.routes} {
		lines, err := look(ctx, node)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	slices.Sort(all)
	return all, nil
}

// ask runs a command on a node and reads what it prints as JSON.
func (c *suite) ask(ctx context.Context, node string, into any, argv ...string) error {
	out, err := c.Box.Exec(ctx, node, argv...)
	if err != nil {
		return fmt.Errorf("run %q on %s: %w\n%s", argv, node, err, out)
	}
	// iproute2 prints nothing for an empty list.
	if text := strings.TrimSpace(string(out)); text != "" {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return fmt.Errorf("read what %q printed on %s: %w", argv, node, err)
		}
	}
	return nil
}

// ports are those of the bridge that the agent made.
func (c *suite) ports(ctx context.Context, node string) ([]string, error) {
	var table struct {
		Data [][2]json.RawMessage `json:"data"`
	}
	if err := c.ask(ctx, node, &table, "ovs-vsctl", "--format=json", "--columns=name,external_ids", "list", "Interface"); err != nil {
		return nil, err
	}
	var lines []string
	for _, row := range table.Data {
		var name string
		if err := json.Unmarshal(row[0], &name); err != nil {
			return nil, fmt.Errorf("read name %s: %w", row[0], err)
		}
		ids := ovsdb.OvsMap{}
		if err := json.Unmarshal(row[1], &ids); err != nil {
			return nil, fmt.Errorf("read external_ids %s: %w", row[1], err)
		}
		switch _, pods := ids.GoMap["atoll.dev/sandbox"]; {
		case pods:
			lines = append(lines, fmt.Sprintf("port of pod %s", ids.GoMap["iface-id-ver"]))
		case strings.HasPrefix(name, "atoll"):
			lines = append(lines, "port "+name)
		}
	}
	return lines, nil
}

func (c *suite) linksOf(ctx context.Context, node string) ([]string, error) {
	var links []struct {
		Name  string `json:"ifname"`
		Alias string `json:"ifalias"`
	}
	if err := c.ask(ctx, node, &links, "ip", "-json", "link"); err != nil {
		return nil, err
	}
	var lines []string
	for _, l := range links {
		if owner, is := netdev.ParseOwner(l.Name, l.Alias); is {
			lines = append(lines, "link of pod "+owner.PodUID)
		} else if strings.HasPrefix(l.Name, "atoll") {
			lines = append(lines, "link "+l.Name)
		}
	}
	return lines, nil
}

// namespaces are those of pods and of portholes, these with the elements of their maps and sets.
func (c *suite) namespaces(ctx context.Context, node string) ([]string, error) {
	out, err := c.Box.Exec(ctx, node, "ls", "/var/run/netns")
	if err != nil {
		return nil, fmt.Errorf("list network namespaces of %s: %w\n%s", node, err, out)
	}
	var lines []string
	for name := range strings.FieldsSeq(string(out)) {
		id, is := strings.CutPrefix(name, netdev.Prefix)
		switch {
		case is:
			elements, err := c.elements(ctx, node, name)
			if err != nil {
				return nil, err
			}
			lines = append(lines, "namespace "+name)
			for _, e := range elements {
				lines = append(lines, "element "+id+" "+e)
			}
		case strings.HasPrefix(name, "cni-"):
			lines = append(lines, "namespace of a pod")
		default:
			lines = append(lines, "namespace "+name)
		}
	}
	return lines, nil
}

// elements are those of the pods in a porthole's table.
func (c *suite) elements(ctx context.Context, node, namespace string) ([]string, error) {
	type set struct {
		Name     string `json:"name"`
		Elements []any  `json:"elem"`
	}
	var ruleset struct {
		Nftables []struct {
			Set *set `json:"set"`
			Map *set `json:"map"`
		} `json:"nftables"`
	}
	if err := c.ask(ctx, node, &ruleset, "ip", "netns", "exec", namespace, "nft", "-json", "list", "table", "inet", "atoll"); err != nil {
		return nil, err
	}
	var lines []string
	for _, item := range ruleset.Nftables {
		for _, s := range []*set{item.Set, item.Map} {
			if s == nil || !slices.Contains([]string{"pods4", "pods6", "own4", "own6", "face4", "face6"}, s.Name) {
				continue
			}
			for _, e := range s.Elements {
				if pair, isMap := e.([]any); isMap {
					lines = append(lines, fmt.Sprintf("%s %s to %s", s.Name, pair[0], pair[1]))
				} else {
					lines = append(lines, fmt.Sprintf("%s %s", s.Name, e))
				}
			}
		}
	}
	return lines, nil
}

// routes are those to single faces. (167 is the number by which the agent knows its routes.)
func (c *suite) routes(ctx context.Context, node string) ([]string, error) {
	var lines []string
	for _, family := range []string{"-4", "-6"} {
		var routes []struct {
			To     string `json:"dst"`
			Device string `json:"dev"`
		}
		if err := c.ask(ctx, node, &routes, "ip", family, "-json", "route", "show", "table", "all", "proto", "167"); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if address, err := netip.ParseAddr(r.To); err == nil {
				lines = append(lines, fmt.Sprintf("route %s by %s", address, r.Device))
			}
		}
	}
	return lines, nil
}
