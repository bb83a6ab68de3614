package drift

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// ComparePods finds pods whose annotation does not say what they have or should have.
func (w Desired) ComparePods(have snapshot.Northbound) []Difference {
	var out []Difference
	for key, decided := range w.Decided.Attachments {
		owner, pod := nb.PodOwner(key.Namespace, key.Name), w.objects.Pods[key]
		d := Difference{Owner: owner, Place: PlaceAPI, Object: "annotation " + model.AnnotationAttachments}
		if w.pending[owner] {
			d.Kind = PodPending
			d.Want = "an address in Network " + decided[0].Network
			d.Have = w.portAddresses(owner, have)
		} else {
			d.Kind = AnnotationDiffers
			d.Want, d.Have = attachmentText(decided), attachmentText(pod.Assigned)
		}
		out = append(out, d)
	}
	return out
}

// CompareNodes finds nodes whose annotation does not say what they have or should have.
func (w Desired) CompareNodes() []Difference {
	var out []Difference
	for name, decided := range w.Decided.Nodes {
		d := Difference{
			Owner: nb.NodeOwner(name), Place: PlaceAPI, Kind: AnnotationDiffers, Object: "annotation " + model.AnnotationNode,
			Want: intake.NodeAnnotation(decided), Have: nothing,
		}
		if have := w.objects.Nodes[name].Assigned; have != nil {
			d.Have = intake.NodeAnnotation(*have)
		} else {
			d.Want = "faces, and an address in the default Network"
		}
		out = append(out, d)
	}
	return out
}

// CompareServices finds Services whose annotation does not say what they have or should have. Which address a new one gets,
// the controller alone can tell.
func (w Desired) CompareServices() []Difference {
	var out []Difference
	for key, decided := range w.Decided.Services {
		d := Difference{
			Owner: nb.ServiceOwner(key.Namespace, key.Name), Place: PlaceAPI, Kind: AnnotationDiffers,
			Object: "annotation " + model.AnnotationServiceAddresses, Want: nothing, Have: nothing,
		}
		have := w.objects.Services[key].Assigned
		if have != nil {
			d.Have = intake.ServiceAddressesAnnotation(*have)
		}
		switch {
		case decided != nil && have == nil && !decided.Refused:
			d.Want = "addresses of Network " + decided.Network
		case decided != nil:
			d.Want = intake.ServiceAddressesAnnotation(*decided)
		}
		out = append(out, d)
	}
	return out
}

// portAddresses says which addresses the port of a pending pod has, if there is one.
func (w Desired) portAddresses(owner nb.Owner, have snapshot.Northbound) string {
	facts, _ := w.Graph.Facts(owner)
	for _, row := range facts.Rows {
		if there, ok := have.Row(nb.RefOf(row)); ok {
			if port, ok := there.(*nb.LogicalSwitchPort); ok {
				return "none, but a port with " + strings.Join(port.Addresses, ", ")
			}
		}
	}
	return "none"
}

// CompareNetworks finds Networks whose status or finalizer is not as it should be. What a status says of the
// database is only looked at when the Network's rows are as they should be.
func (w Desired) CompareNetworks(shown func(name, uid string) (kube.Shown, bool), rows []Difference) []Difference {
	differs := map[nb.Owner]bool{}
	for _, d := range rows {
		differs[d.Owner] = true
	}
	var out []Difference
	for name, n := range w.objects.Networks {
		owner := nb.NetworkOwner(name)
		if !differs[owner] {
			w.state.Committed(owner)
		}
		field := func(kind Kind, object, want, have string) {
			if want != have {
				out = append(out, Difference{Owner: owner, Place: PlaceAPI, Kind: kind, Object: object, Want: want, Have: have})
			}
		}
		status, _ := shown(name, n.UID)
		if status.ObservedGeneration < n.Generation {
			field(StatusBehind, "status.observedGeneration", fmt.Sprint(n.Generation), fmt.Sprint(status.ObservedGeneration))
		} else if !differs[owner] {
			should := w.Decided.statuses[name]
			field(StatusDiffers, "status.phase", string(should.Phase), string(status.Phase))
			field(StatusDiffers, "status.pods", strconv.FormatInt(should.Pods, 10), strconv.FormatInt(status.Pods, 10))
		}
		if present, asked := w.Decided.finalizers[name]; asked && present {
			field(FinalizerMissing, "metadata.finalizers", model.Finalizer, nothing)
		} else if asked {
			field(FinalizerLeft, "metadata.finalizers", nothing, model.Finalizer)
		}
	}
	return out
}
