package intake

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestNetworkStatusKeepsTransitionTimes(t *testing.T) {
	first := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	later := metav1.NewTime(first.Add(time.Hour))
	report := model.NetworkStatus{
		ObservedGeneration: 2, Phase: model.Ready, Pods: 4,
		Conditions: []model.Condition{
			{Type: model.ConditionInUse, Status: true, Reason: "PodsAttached", Message: "4 pods"},
			{Type: model.ConditionReady, Status: true, Reason: "Written"},
		},
		Subnets:      []model.SubnetStatus{{Name: "a", CIDR: "10.0.0.0/24", Used: 4, Free: 249}},
		ServiceCIDRs: []model.ServiceCIDRStatus{{CIDR: "10.9.0.0/24", Used: 2, Free: 252}},
		Isolation: &model.Isolation{
			Pods: model.Soft, DNS: model.Hard, Overall: model.Soft, Reasons: []model.Problem{{Reason: "A", Message: "a"}},
		},
	}
	got := NetworkStatus(v1alpha1.NetworkStatus{}, report, first)
	want := v1alpha1.NetworkStatus{
		Phase: v1alpha1.NetworkReady, ObservedGeneration: 2, Pods: 4,
		Conditions: []metav1.Condition{
			{Type: "InUse", Status: "True", Reason: "PodsAttached", Message: "4 pods", ObservedGeneration: 2, LastTransitionTime: first},
			{Type: "Ready", Status: "True", Reason: "Written", ObservedGeneration: 2, LastTransitionTime: first},
		},
		Subnets:      []v1alpha1.SubnetStatus{{Name: "a", CIDR: "10.0.0.0/24", Since: &first, Used: 4, Free: 249}},
		ServiceCIDRs: []v1alpha1.ServiceCIDRStatus{{CIDR: "10.9.0.0/24", Used: 2, Free: 252}},
		Isolation: &v1alpha1.Isolation{
			Pods: v1alpha1.Soft, DNS: v1alpha1.Hard, Overall: v1alpha1.Soft, Reasons: []v1alpha1.IsolationReason{{Reason: "A", Message: "a"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(got, NetworkStatus(got, report, later)); diff != "" {
		t.Errorf("the same report changes the status:\n%s", diff)
	}

	if read := Network(&v1alpha1.Network{Status: got}); read.Isolated != model.Soft {
		t.Errorf("the verdict is read as %q", read.Isolated)
	}

	report.Conditions = []model.Condition{
		{Type: model.ConditionInUse, Status: true, Reason: "PodsAttached", Message: "5 pods"},
		{Type: model.ConditionReady, Status: false, Reason: "SubnetFull", Message: "a is full"},
	}
	got = NetworkStatus(got, report, later)
	if got.Conditions[0].LastTransitionTime != first || got.Conditions[0].Message != "5 pods" {
		t.Errorf("new words alone must keep the time: %+v", got.Conditions[0])
	}
	if got.Conditions[1].LastTransitionTime != later {
		t.Errorf("a new status must have a new time: %+v", got.Conditions[1])
	}
}

// TestMessagesOfConditionsAreBounded: what a tenant names a hundred times leaves the status one that the API server takes.
func TestMessagesOfConditionsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 40_000)
	got := NetworkStatus(v1alpha1.NetworkStatus{}, model.NetworkStatus{
		Conditions: []model.Condition{{Type: model.ConditionSubnetsValid, Reason: "A", Message: long}},
	}, metav1.Now())
	if message := got.Conditions[0].Message; len(message) > maxConditionMessage || !utf8.ValidString(message) ||
		!strings.HasSuffix(message, "é ...") {
		t.Errorf("it has %d bytes, and ends with %q", len(message), message[max(0, len(message)-8):])
	}
}

func TestNetworkStatusAnnotation(t *testing.T) {
	got := NetworkStatusAnnotation(decided)
	want := `[{"name":"red","interface":"eth0","ips":["10.0.0.5","fd00::5"],"mac":"0a:00:00:00:00:01","default":true,"dns":{},"gateway":["10.0.0.1"]}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if NetworkStatusAnnotation(nil) != "" || AttachmentsAnnotation(nil) != "" {
		t.Error("no attachments must have no annotation")
	}
}
