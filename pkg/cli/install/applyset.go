package install

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-net/atoll/pkg/process/build"
)

// Labels and annotations of an ApplySet (Kubernetes' KEP-3659). Any tool that knows them can tell what belongs to Atoll's installation.
const (
	setIDLabel        = "applyset.kubernetes.io/id"
	setMemberLabel    = "applyset.kubernetes.io/part-of"
	setToolingMark    = "applyset.kubernetes.io/tooling"
	setKindsMark      = "applyset.kubernetes.io/contains-group-kinds"
	setNamespacesMark = "applyset.kubernetes.io/additional-namespaces"
	// parentName is the ConfigMap that stands for the set.
	parentName = "atoll-install"
	// versionLabel is the recommended label of Kubernetes, on workloads.
	versionLabel = "app.kubernetes.io/version"
	// partOfLabel is on all of Atoll's manifests, whoever applies them.
	partOfLabel = "app.kubernetes.io/part-of"
	partOf      = "atoll"
)

var (
	configMaps = schema.GroupKind{Kind: "ConfigMap"}
	namespaces = schema.GroupKind{Kind: "Namespace"}
	crds       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// setID is the id of the set whose parent is ConfigMap atoll-system/atoll-install.
func setID() string {
	sum := sha256.Sum256([]byte(parentName + "." + system + ".ConfigMap."))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// record is what the parent tells of an installation.
type record struct {
	// Version is that of the images, Source what was installed.
	Version, Source string
	// kinds and namespaces are where members are.
	kinds      []schema.GroupKind
	namespaces []string
}

// parent is the object that tells it.
func (r record) parent() *unstructured.Unstructured {
	var kinds []string
	for _, gk := range r.kinds {
		kinds = append(kinds, gk.String())
	}
	slices.Sort(kinds)
	more := slices.DeleteFunc(slices.Sorted(slices.Values(r.namespaces)), func(n string) bool { return n == system || n == "" })
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"version": r.Version, "source": r.Source},
	}}
	o.SetNamespace(system)
	o.SetName(parentName)
	o.SetLabels(map[string]string{setIDLabel: setID(), partOfLabel: partOf})
	annotations := map[string]string{
		setToolingMark: "atoll/" + build.Version(), setKindsMark: strings.Join(slices.Compact(kinds), ","),
	}
	if len(more) > 0 {
		annotations[setNamespacesMark] = strings.Join(slices.Compact(more), ",")
	}
	o.SetAnnotations(annotations)
	return o
}

// readRecord reads what was installed; nil, if `atoll install` installed nothing.
func (c *Cluster) readRecord(ctx context.Context) (*record, error) {
	o, err := c.get(ctx, configMaps, system, parentName)
	if err != nil || o == nil {
		return nil, err
	}
	if o.GetLabels()[setIDLabel] != setID() {
		return nil, fmt.Errorf("%s is not ours: its label %s is %q", nameOf(o), setIDLabel, o.GetLabels()[setIDLabel])
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	r := &record{Version: data["version"], Source: data["source"]}
	for text := range strings.SplitSeq(o.GetAnnotations()[setKindsMark], ",") {
		if text != "" {
			r.kinds = append(r.kinds, schema.ParseGroupKind(text))
		}
	}
	for text := range strings.SplitSeq(o.GetAnnotations()[setNamespacesMark], ",") {
		if text != "" {
			r.namespaces = append(r.namespaces, text)
		}
	}
	return r, nil
}

// join makes the objects members of the set, and tells workloads their version.
func join(objects []*unstructured.Unstructured, version string) {
	for _, o := range objects {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[setMemberLabel] = setID()
		if isWorkload(o) && version != "" {
			labels[versionLabel] = version
		}
		o.SetLabels(labels)
	}
}

// place is where the members are.
func place(objects []*unstructured.Unstructured) (kinds []schema.GroupKind, names []string) {
	for _, o := range objects {
		kinds = append(kinds, o.GroupVersionKind().GroupKind())
		if ns := o.GetNamespace(); ns != "" {
			names = append(names, ns)
		}
	}
	return kinds, names
}

// identity tells objects apart, whatever the version of their API.
type identity struct {
	schema.GroupKind
	namespace, name string
}

func identityOf(o *unstructured.Unstructured) identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// members lists all that carries the set's label, in the set's namespaces and outside of any.
func (c *Cluster) members(ctx context.Context, r record) ([]unstructured.Unstructured, error) {
	return c.labelled(ctx, r, setMemberLabel+"="+setID())
}

func (c *Cluster) labelled(ctx context.Context, r record, selector string) (out []unstructured.Unstructured, err error) {
	where := map[string]bool{system: true, "": true}
	for _, n := range r.namespaces {
		where[n] = true
	}
	seen := map[schema.GroupKind]bool{}
	for _, gk := range r.kinds {
		if seen[gk] {
			continue
		}
		seen[gk] = true
		found, err := c.list(ctx, gk, "", selector)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if where[o.GetNamespace()] {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// surplus splits members that are wanted no more into those that may go and those that stay, with the reason. hasObjects reports whether a
// definition's kind has any.
func surplus(
	members []unstructured.Unstructured, wanted []*unstructured.Unstructured, hasObjects func(*unstructured.Unstructured) (bool, error),
) (gone, stay []Outcome, remove []*unstructured.Unstructured, err error) {
	keep := map[identity]bool{}
	for _, o := range wanted {
		keep[identityOf(o)] = true
	}
	for i := range members {
		o := &members[i]
		if keep[identityOf(o)] || o.GetLabels()[setMemberLabel] != setID() {
			continue
		}
		why := ""
		switch {
		case isKind(o, "atoll.dev", o.GetKind()):
			why = "objects of Atoll's kinds are yours to delete"
		case isKind(o, "", namespaces.Kind):
			why = "a namespace is yours to delete"
		case isKind(o, crds.Group, crds.Kind):
			has, err := hasObjects(o)
			if err != nil {
				return nil, nil, nil, err
			}
			if has {
				why = "there are objects of its kind"
			}
		}
		if why != "" {
			stay = append(stay, Outcome{Object: nameOf(o), What: kept, Why: why})
			continue
		}
		gone = append(gone, Outcome{Object: nameOf(o), What: pruned, Why: "this version has it no more"})
		remove = append(remove, o)
	}
	return gone, stay, remove, nil
}

// hasObjects reports whether there are any of the kind that a definition defines.
func (c *Cluster) hasObjects(ctx context.Context, crd *unstructured.Unstructured) (bool, error) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	found, err := c.list(ctx, schema.GroupKind{Group: group, Kind: kind}, "", "")
	return len(found) > 0, err
}
