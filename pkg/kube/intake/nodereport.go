package intake

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// NodeReport reads a report. What is no single address that a machine can have is left away, and so is what is more than a report
// may have: the API server takes neither.
func NodeReport(in *v1alpha1.NodeReport) *model.NodeReport {
	out := &model.NodeReport{
		Node:      in.Name,
		Addresses: reported(in.Status.Addresses, model.MaxReportedAddresses, netip.Addr.IsGlobalUnicast),
		Tunnels:   reported(in.Status.Tunnels, model.MaxReportedTunnels, netip.Addr.IsGlobalUnicast),
		// A node's own cache of names has a link-local one.
		DNS:     reported(in.Status.ClusterDNS, model.MaxReportedDNS, netip.Addr.IsValid),
		Version: in.Status.Version,
	}
	for _, owner := range in.OwnerReferences {
		if owner.Kind == nodeKind && owner.Name == in.Name {
			out.NodeUID = string(owner.UID)
		}
	}
	return out
}

func reported(texts []string, most int, can func(netip.Addr) bool) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts[:min(len(texts), most)] {
		if a, err := parseAddr(text); err == nil && can(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// nodeKind is the kind of Nodes, which are of version v1.
const nodeKind = "Node"

// ReportOf is the object of a report. Of lists that are too long it has the first.
func ReportOf(r model.NodeReport) *v1alpha1.NodeReport {
	texts := func(list []netip.Addr, most int) []string {
		var out []string
		for _, a := range list[:min(len(list), most)] {
			out = append(out, a.String())
		}
		return out
	}
	return &v1alpha1.NodeReport{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeReport"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            r.Node,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: nodeKind, Name: r.Node, UID: types.UID(r.NodeUID)}},
		},
		Status: v1alpha1.NodeReportStatus{
			Addresses:  texts(r.Addresses, model.MaxReportedAddresses),
			Tunnels:    texts(r.Tunnels, model.MaxReportedTunnels),
			ClusterDNS: texts(r.DNS, model.MaxReportedDNS),
			Version:    r.Version,
		},
	}
}
