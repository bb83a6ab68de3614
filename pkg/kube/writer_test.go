package kube

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

var decision = []model.Attachment{{
	PodUID: "u", Interface: "eth0", Network: "red", NetworkUID: "n", Subnet: "a", MAC: "0a:00:00:00:00:01",
	Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")},
	Gateways:  []netip.Addr{netip.MustParseAddr("10.0.0.1")},
}}

func TestPatches(t *testing.T) {
	body := func(b []byte, err error) string {
		t.Helper()
		must(t, err)
		return string(b)
	}
	for name, test := range map[string]struct{ got, want string }{
		"attachments": {
			body(annotationsPatch("u", annotationsOf(decision))),
			`{"metadata":{"uid":"u","annotations":{` +
				`"atoll.dev/attachments":"[{\"podUID\":\"u\",\"interface\":\"eth0\",\"network\":\"red\",\"networkUID\":\"n\",\"subnet\":\"a\",\"mac\":\"0a:00:00:00:00:01\",\"addresses\":[\"10.0.0.5/24\"],\"gateways\":[\"10.0.0.1\"]}]",` +
				`"atoll.dev/addresses":"10.0.0.5",` +
				`"k8s.v1.cni.cncf.io/network-status":"[{\"name\":\"red\",\"interface\":\"eth0\",\"ips\":[\"10.0.0.5\"],\"mac\":\"0a:00:00:00:00:01\",\"default\":true,\"dns\":{},\"gateway\":[\"10.0.0.1\"]}]"}}}`,
		},
		"no attachments": {
			body(annotationsPatch("u", annotationsOf(nil))),
			`{"metadata":{"uid":"u","annotations":{"atoll.dev/attachments":null,"atoll.dev/addresses":null,"k8s.v1.cni.cncf.io/network-status":null}}}`,
		},
		"status": {
			body(statusPatch("u", v1alpha1.NetworkStatus{Phase: "Ready", Pods: 2})),
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"add","path":"/status","value":{"phase":"Ready","pods":2}}]`,
		},
	} {
		if test.got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", name, test.got, test.want)
		}
	}
	for _, annotation := range []string{model.AnnotationAttachments, model.AnnotationAddresses, model.AnnotationNetworkStatus} {
		if !strings.Contains(body(annotationsPatch("u", annotationsOf(decision))), `"`+annotation+`":`) {
			t.Errorf("the patch lacks %s", annotation)
		}
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	ready := model.NetworkStatus{Phase: model.Ready, Conditions: []model.Condition{{Type: "Ready", Status: true, Reason: "Written"}}}
	counted := ready
	counted.Pods = 3
	failed := counted
	failed.Conditions = []model.Condition{{Type: "Ready", Reason: "SubnetFull"}}
	p := newPace()
	for i, step := range []struct {
		after  time.Duration
		uid    string
		status model.NetworkStatus
		want   time.Duration
	}{
		{0, "u", ready, 0},
		{100 * time.Millisecond, "u", counted, time.Second},
		{100 * time.Millisecond, "u", counted, 900 * time.Millisecond},
		{900 * time.Millisecond, "u", counted, time.Second},
		{0, "u", failed, 0},
		{100 * time.Millisecond, "other", failed, 0},
		{time.Second, "other", failed, time.Second},
	} {
		now = now.Add(step.after)
		if got := p.delay("n", step.uid, step.status, now); got != step.want {
			t.Errorf("step %d waits %s, want %s", i, got, step.want)
		}
	}
}

func BenchmarkAttachmentsPatch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := annotationsPatch("0d1c2c8e-0000-4000-8000-000000000000", annotationsOf(decision)); err != nil {
			b.Fatal(err)
		}
	}
}
