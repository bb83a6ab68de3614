package intake

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// In which ranges a Network's pods dial others' Services is read, and no more of it than the API allows; what cannot be read is none.
func TestUsedServiceCIDRs(t *testing.T) {
	t.Parallel()
	in := &v1alpha1.Network{Spec: v1alpha1.NetworkSpec{UsesServiceCIDRs: []v1alpha1.UsedServiceCIDRs{
		{Network: "red", CIDRs: []v1alpha1.CIDR{"10.8.0.0/24", "fd00:8::/64"}}, {
			Network: "blue", CIDRs: []v1alpha1.CIDR{"everything", "10.8.0.1/24"},
		},
	}}}
	want := map[string][]netip.Prefix{"red": {netip.MustParsePrefix("10.8.0.0/24"), netip.MustParsePrefix("fd00:8::/64")}, "blue": {}}
	if got := Network(in).UsesServiceCIDRs; !reflect.DeepEqual(got, want) {
		t.Errorf("Services are dialled in %v, want %v", got, want)
	}
	for range maxPeers {
		in.Spec.UsesServiceCIDRs = append(in.Spec.UsesServiceCIDRs, v1alpha1.UsedServiceCIDRs{Network: "more"})
	}
	in.Spec.UsesServiceCIDRs = append(in.Spec.UsesServiceCIDRs, v1alpha1.UsedServiceCIDRs{Network: "too many"})
	if _, read := Network(in).UsesServiceCIDRs["too many"]; read {
		t.Error("more are read than the API allows")
	}
}

// A range is as old as the first status that tells of it, whatever comes and goes beside it, and one that comes back is new.
func TestRangesKeepTheirAge(t *testing.T) {
	t.Parallel()
	made := time.Unix(100, 0)
	// Of what was changed before there was a status nobody knows more.
	changed := NetworkStatus(v1alpha1.NetworkStatus{},
		model.NetworkStatus{Created: made, ObservedGeneration: 2, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
		metav1.Unix(200, 0))
	if at := changed.Ranges[0].Since.Unix(); at != 200 {
		t.Errorf("a range of a Network that was changed before its first status is there since %d", at)
	}
	// Those of an earlier version's status, which tells of none, are as old as their Network.
	upgraded := NetworkStatus(v1alpha1.NetworkStatus{ObservedGeneration: 7},
		model.NetworkStatus{Created: made, ObservedGeneration: 7, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
		metav1.Unix(200, 0))
	if at := upgraded.Ranges[0].Since.Unix(); at != 100 {
		t.Errorf("a range of a Network of an earlier version is there since %d", at)
	}
	// So are those that it tells of as subnets and service ranges, where the Network has been changed since: what came then is new.
	moved := NetworkStatus(v1alpha1.NetworkStatus{
		ObservedGeneration: 7, Subnets: []v1alpha1.SubnetStatus{{Name: "a", CIDR: "10.1.0.0/16"}, {Name: "b", CIDR: "10.5.0.0/16"}},
		ServiceCIDRs: []v1alpha1.ServiceCIDRStatus{{CIDR: "10.8.0.0/24"}},
	}, model.NetworkStatus{Created: made, ObservedGeneration: 8, Ranges: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.8.0.0/24"), netip.MustParsePrefix("10.9.0.0/24"),
	}}, metav1.Unix(200, 0))
	for i, want := range []int64{100, 100, 200} {
		if r := moved.Ranges[i]; r.Since.Unix() != want {
			t.Errorf("%s of a Network of an earlier version that was changed is there since %d, want %d", r.CIDR, r.Since.Unix(), want)
		}
	}
	status := v1alpha1.NetworkStatus{}
	for i, step := range []struct {
		second int64
		ranges []string
		want   map[string]int64
	}{
		// What it has from its beginning is as old as it is.
		{200, []string{"10.1.0.0/16"}, map[string]int64{"10.1.0.0/16": 100}},
		{300, []string{"10.1.0.0/16", "10.8.0.0/24"}, map[string]int64{"10.1.0.0/16": 100, "10.8.0.0/24": 300}},
		{400, []string{"10.8.0.0/24", "10.1.0.0/16"}, map[string]int64{"10.1.0.0/16": 100, "10.8.0.0/24": 300}},
		{500, []string{"10.8.0.0/24"}, map[string]int64{"10.8.0.0/24": 300}},
		{
			600, []string{"10.8.0.0/24", "10.1.0.0/16", "10.8.0.0/23"}, map[string]int64{"10.8.0.0/24": 300, "10.1.0.0/16": 600, "10.8.0.0/23": 600},
		},
	} {
		report := model.NetworkStatus{Created: made, ObservedGeneration: int64(i + 1)}
		for _, r := range step.ranges {
			report.Ranges = append(report.Ranges, netip.MustParsePrefix(r))
		}
		status = NetworkStatus(status, report, metav1.Unix(step.second, 0))
		got := map[string]int64{}
		for r, since := range Network(&v1alpha1.Network{Status: status}).Since {
			got[r.String()] = since.Unix()
		}
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("at %d its ranges are there since %v, want %v", step.second, got, step.want)
		}
	}
}

// A subnet is as old as the first status that tells of its name, whatever its ranges are, and one that comes back is new. Those
// of an earlier version's status are as old as their Network.
func TestSubnetsKeepTheirAge(t *testing.T) {
	t.Parallel()
	made := time.Unix(100, 0)
	status := v1alpha1.NetworkStatus{ObservedGeneration: 7, Subnets: []v1alpha1.SubnetStatus{{Name: "old", CIDR: "10.0.0.0/24"}}}
	ages := func() map[string]int64 {
		out := map[string]int64{}
		for name, at := range Network(
			&v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: status}).SubnetSince {
			out[name] = at.Unix()
		}
		return out
	}
	if got := ages(); !reflect.DeepEqual(got, map[string]int64{"old": 100}) {
		t.Errorf("the subnets of an earlier version are read as %v", got)
	}
	for i, step := range []struct {
		subnets map[string]string
		want    map[string]int64
	}{
		{map[string]string{"old": "10.0.0.0/24", "a": "10.1.0.0/24"}, map[string]int64{"old": 100, "a": 200}},
		{map[string]string{"a": "10.2.0.0/24", "renamed": "10.0.0.0/24"}, map[string]int64{"a": 200, "renamed": 201}},
		{map[string]string{"a": "10.2.0.0/24", "old": "10.0.0.0/24"}, map[string]int64{"a": 200, "old": 202}},
		{nil, map[string]int64{}},
		{map[string]string{"a": "10.2.0.0/24"}, map[string]int64{"a": 204}},
	} {
		report := model.NetworkStatus{Created: made, ObservedGeneration: 8}
		for name, cidr := range step.subnets {
			report.Subnets = append(report.Subnets, model.SubnetStatus{Name: name, CIDR: cidr, Gateway: "10.0.0.1"})
		}
		status = NetworkStatus(status, report, metav1.Unix(200+int64(i), 0))
		if got := ages(); !reflect.DeepEqual(got, step.want) {
			t.Errorf("step %d: since %v, want %v", i, got, step.want)
		}
	}
}
