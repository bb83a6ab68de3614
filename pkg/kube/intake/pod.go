package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds on a pod's annotations, in bytes and elements.
const (
	maxNICs            = 4 << 10
	maxAttachments     = 16 << 10
	maxAttachmentCount = 16
	maxNameLength      = 253
	// maxPodPorts bounds a pod's ports with a name. Whoever writes a pod decides which of its ports have a name: no policy relies on that.
	maxPodPorts = 256
	// maxAnnotations is what Kubernetes stores of an object's annotations, and maxOthers what leaves room for ours.
	maxAnnotations      = 256 << 10
	maxOthers           = maxAnnotations - 4<<10
	knownNICRequestKeys = "network, subnet, ip and name"
)

// Namespace reads a namespace.
func Namespace(in *corev1.Namespace) *model.Namespace {
	return &model.Namespace{
		Name: in.Name, UID: string(in.UID), Labels: maps.Clone(in.Labels),
		Unknown: model.NamespaceKeys().Unknown(in.Labels, in.Annotations),
	}
}

// Pod reads a pod; nil when it needs nothing from us: it has no node yet, uses its node's own network, or has
// finished for good.
func Pod(in *corev1.Pod) *model.Pod {
	switch {
	case in.Spec.NodeName == "",
		in.Spec.HostNetwork,
		in.Status.Phase == corev1.PodSucceeded,
		in.Status.Phase == corev1.PodFailed:
		return nil
	}
	out := &model.Pod{
		Key:      model.PodKey{Namespace: in.Namespace, Name: in.Name},
		UID:      string(in.UID),
		Node:     in.Spec.NodeName,
		Created:  in.CreationTimestamp.Time,
		Labels:   maps.Clone(in.Labels),
		Ports:    namedPorts(in.Spec),
		Network:  in.Labels[model.LabelNetwork],
		Unknown:  model.PodKeys().Unknown(in.Labels, in.Annotations),
		Beyond:   BeyondBaseline(in) != "",
		Assigned: attachments(in.Annotations[model.AnnotationAttachments], string(in.UID)),
	}
	if size := annotationsSize(in.Annotations); size > maxOthers {
		out.Unwritable = fmt.Sprintf("the pod's annotations are too long, %d bytes: Kubernetes stores %d in all, and the "+
			"pod's addresses need %d of them. Remove or shorten some, and the pod gets its network", size, maxAnnotations, maxAnnotations-maxOthers)
	}
	nic, err := nicRequest(in.Annotations[model.AnnotationNICs])
	if err != nil {
		out.NICError = bounded(fmt.Sprintf("annotation %s: %s", model.AnnotationNICs, err))
	} else {
		out.NIC = nic
	}
	return out
}

// annotationsSize counts annotations as Kubernetes does, ours left out. (apimachinery, ValidateAnnotationsSize.)
func annotationsSize(annotations map[string]string) int {
	size := 0
	for key, value := range annotations {
		if key != model.AnnotationAttachments && key != model.AnnotationNetworkStatus {
			size += len(key) + len(value)
		}
	}
	return size
}

// namedPorts are the ports to which the containers that keep running give names, sorted: the first maxPodPorts.
func namedPorts(spec corev1.PodSpec) []model.PodPort {
	var out []model.PodPort
	read := func(c corev1.Container) {
		for _, p := range c.Ports {
			if protocol, known := protocols[p.Protocol]; known && p.Name != "" && portOK(p.ContainerPort) {
				out = append(out, model.PodPort{Name: p.Name, Protocol: protocol, Port: uint16(p.ContainerPort)})
			}
		}
	}
	for _, c := range spec.Containers {
		read(c)
	}
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			read(c)
		}
	}
	slices.SortFunc(out, model.PodPort.Compare)
	out = slices.Compact(out)
	return slices.Clone(out[:min(len(out), maxPodPorts)])
}

// maxErrorLength bounds what is said of an annotation that cannot be read, in bytes: it may quote what a tenant wrote.
const maxErrorLength = 512

// bounded cuts a text at the bound.
func bounded(text string) string { return cut(text, maxErrorLength) }

// cut cuts a text that has more bytes than most, between two characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = " ..."
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

// wireNIC is NICRequest as text, so that a bad value can be named to its owner.
type wireNIC struct {
	Network string `json:"network"`
	Subnet  string `json:"subnet"`
	IP      string `json:"ip"`
	Name    string `json:"name"`
}

// nicRequest reads AnnotationNICs. Its errors are for the pod's owner.
func nicRequest(text string) (model.NICRequest, error) {
	var none model.NICRequest
	if strings.TrimSpace(text) == "" {
		return none, nil
	}
	if len(text) > maxNICs {
		return none, fmt.Errorf("%d bytes; at most %d are read", len(text), maxNICs)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var list []wireNIC
	if err := d.Decode(&list); err != nil {
		return none, plainJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return none, errors.New("something follows the end of the list")
	}
	switch {
	case len(list) == 0:
		return none, nil
	case len(list) > 1:
		return none, fmt.Errorf("%d interfaces are asked for; a pod has one for now", len(list))
	}
	w := list[0]
	out := model.NICRequest{Network: w.Network, Subnet: w.Subnet, Name: w.Name}
	if w.Name != "" && w.Name != model.DefaultInterface {
		return none, fmt.Errorf("name must be empty or %s for now, not %s", model.DefaultInterface, quote(w.Name))
	}
	if len(w.Network) > maxNameLength || len(w.Subnet) > maxNameLength {
		return none, fmt.Errorf("network and subnet are names of at most %d bytes", maxNameLength)
	}
	if w.IP != "" {
		a, err := parseAddr(w.IP)
		if err != nil {
			return none, fmt.Errorf("ip: %w", err)
		}
		out.IP = a
	}
	return out, nil
}

// plainJSON says what is wrong with a list of NIC requests without the words of Go.
func plainJSON(err error) error {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrongType.Field == "" {
			return fmt.Errorf("must be a JSON list of objects, not %s", wrongType.Value)
		}
		return fmt.Errorf("%s must be text, not %s", wrongType.Field, wrongType.Value)
	}
	if field, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return fmt.Errorf("unknown field %s; there are %s", field, knownNICRequestKeys)
	}
	return errors.New("is not valid JSON")
}

// attachments reads what the controller wrote earlier on the pod with that UID; anything else counts as nothing.
func attachments(text, uid string) []model.Attachment {
	if text == "" || len(text) > maxAttachments {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	var list []model.Attachment
	if err := d.Decode(&list); err != nil || len(list) > maxAttachmentCount {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	for _, a := range list {
		if a.PodUID != uid || len(a.Addresses) == 0 || len(a.Addresses) > 2 || len(a.Gateways) > 2 || len(a.Faces) > 2 {
			return nil
		}
		for _, p := range a.Addresses {
			if !p.IsValid() || !usable(p.Addr()) {
				return nil
			}
		}
		for _, g := range a.Gateways {
			if !usable(g) {
				return nil
			}
		}
		for _, f := range a.Faces {
			if !usable(f) {
				return nil
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func usable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6()
}
