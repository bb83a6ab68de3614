package intake

import (
	"encoding/json"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// NetworkStatus is the status to show for what the controller reports. A condition whose status is the same
// as in old keeps the time of its transition; others change at now. It shares nothing with old.
func NetworkStatus(old v1alpha1.NetworkStatus, report model.NetworkStatus, now metav1.Time) v1alpha1.NetworkStatus {
	out := v1alpha1.NetworkStatus{
		Phase:              v1alpha1.NetworkPhase(report.Phase),
		ObservedGeneration: report.ObservedGeneration,
		Pods:               report.Pods,
		Joined:             int32(report.Joined),
		Isolation:          isolation(report.Isolation),
	}
	for _, c := range report.Conditions {
		out.Conditions = append(out.Conditions, condition(old.Conditions, c, report.ObservedGeneration, now))
	}
	since := subnetTimes(old, report)
	for _, s := range report.Subnets {
		at, told := since[s.Name]
		if !told {
			at = now
		}
		out.Subnets = append(out.Subnets, v1alpha1.SubnetStatus{
			Name: s.Name, CIDR: s.CIDR, Gateway: s.Gateway, Since: &at, Used: s.Used, Free: s.Free,
		})
	}
	for _, s := range report.ServiceCIDRs {
		out.ServiceCIDRs = append(out.ServiceCIDRs, v1alpha1.ServiceCIDRStatus{CIDR: s.CIDR, Used: s.Used, Free: s.Free})
	}
	out.Ranges = ranges(old, report, now)
	for _, c := range report.Compatibility {
		direction := v1alpha1.CompatibilityServes
		if c.Uses {
			direction = v1alpha1.CompatibilityUses
		}
		out.Compatibility = append(out.Compatibility, v1alpha1.CompatibilityStatus{
			Network: c.Network, Direction: direction, Mode: v1alpha1.CompatibilityMode(c.Mode), Addresses: c.Addresses,
			ServiceAddresses: c.ServiceAddresses,
			State:            string(c.State), Reason: c.Problem.Reason, Message: c.Problem.Message,
		})
	}
	return out
}

// subnetTimes are since when a Network has had the subnets that old tells of. An old that does not say is from before statuses
// did: these subnets are as old as the Network.
func subnetTimes(old v1alpha1.NetworkStatus, report model.NetworkStatus) map[string]metav1.Time {
	out := map[string]metav1.Time{}
	for _, s := range old.Subnets {
		out[s.Name] = ptr.Deref(s.Since, metav1.NewTime(report.Created))
	}
	return out
}

// maxRanges bounds of how many ranges a status tells.
const maxRanges = 130

// ranges are those that a Network has, each since when: what old tells stays as it is. An old that tells of none is from before
// statuses did: what it tells of as a subnet or a service range, the Network has had since it was made, and all others, too, if
// nobody has changed it since.
func ranges(old v1alpha1.NetworkStatus, report model.NetworkStatus, now metav1.Time) []v1alpha1.RangeStatus {
	since := map[string]metav1.Time{}
	for _, r := range old.Ranges {
		since[r.CIDR] = r.Since
	}
	if len(old.Ranges) == 0 {
		made := metav1.NewTime(report.Created)
		for _, s := range old.Subnets {
			since[s.CIDR] = made
		}
		for _, s := range old.ServiceCIDRs {
			since[s.CIDR] = made
		}
		if report.ObservedGeneration == max(old.ObservedGeneration, 1) {
			now = made
		}
	}
	var out []v1alpha1.RangeStatus
	for _, r := range report.Ranges[:min(len(report.Ranges), maxRanges)] {
		at, told := since[r.String()]
		if !told {
			at = now
		}
		out = append(out, v1alpha1.RangeStatus{CIDR: r.String(), Since: at})
	}
	return out
}

// isolation is how something is shown to be isolated; nil while nothing is known of it.
func isolation(in *model.Isolation) *v1alpha1.Isolation {
	if in == nil {
		return nil
	}
	out := &v1alpha1.Isolation{Pods: v1alpha1.Hardness(in.Pods), DNS: v1alpha1.Hardness(in.DNS), Overall: v1alpha1.Hardness(in.Overall)}
	for _, r := range in.Reasons {
		out.Reasons = append(out.Reasons, v1alpha1.IsolationReason(r))
	}
	return out
}

// isolated is the verdict that a status tells; empty: none.
func isolated(in *v1alpha1.Isolation) model.Hardness {
	if in == nil {
		return ""
	}
	return model.Hardness(in.Overall)
}

// maxConditionMessage bounds a condition's message, in bytes. The API server refuses a whole status for one message of more than
// 32,768, and tenants' names are in messages.
const maxConditionMessage = 4096

func condition(old []metav1.Condition, c model.Condition, generation int64, now metav1.Time) metav1.Condition {
	out := metav1.Condition{
		Type:               c.Type,
		Status:             metav1.ConditionFalse,
		Reason:             c.Reason,
		Message:            cut(c.Message, maxConditionMessage),
		ObservedGeneration: generation,
		LastTransitionTime: now,
	}
	switch {
	case c.Unknown:
		out.Status = metav1.ConditionUnknown
	case c.Status:
		out.Status = metav1.ConditionTrue
	}
	for _, o := range old {
		if o.Type == c.Type && o.Status == out.Status && !o.LastTransitionTime.IsZero() {
			out.LastTransitionTime = o.LastTransitionTime
		}
	}
	return out
}

// NetworkStatusAnnotation is the value of AnnotationNetworkStatus: what the multi-network convention (its
// specification v1.3, section 5) reports of a pod's interfaces. Empty for none.
func NetworkStatusAnnotation(list []model.Attachment) string {
	if len(list) == 0 {
		return ""
	}
	out := make([]nadv1.NetworkStatus, len(list))
	for i, a := range list {
		out[i] = nadv1.NetworkStatus{Name: a.Network, Interface: a.Interface, Mac: a.MAC, Default: i == 0}
		for _, p := range a.Addresses {
			out[i].IPs = append(out[i].IPs, p.Addr().String())
		}
		for _, g := range a.Gateways {
			out[i].Gateway = append(out[i].Gateway, g.String())
		}
	}
	return jsonOf(out)
}

// AttachmentsAnnotation is the value of AnnotationAttachments. Empty for none.
func AttachmentsAnnotation(list []model.Attachment) string {
	if len(list) == 0 {
		return ""
	}
	return jsonOf(list)
}

// jsonOf is the JSON of what is made of texts, addresses and lists of them, which always have one.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// AddressesAnnotation is the value of AnnotationAddresses: a pod's own addresses, for people and for kubectl's columns. Empty for none.
func AddressesAnnotation(list []model.Attachment) string {
	var out []string
	for _, a := range list {
		for _, p := range a.Addresses {
			out = append(out, p.Addr().String())
		}
	}
	return strings.Join(out, ",")
}
