package intake

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// A report takes away single addresses that a machine can have, and not more of them than a report may have.
func TestNodeReportIsBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 2 * model.MaxReportedAddresses {
		many = append(many, fmt.Sprintf("192.0.%d.%d", i/256, i%256))
	}
	for name, test := range map[string]struct {
		given []string
		want  int
	}{
		"addresses of both families":   {[]string{"192.0.2.1", "2001:db8::1", "10.1.2.3", "fd00::7"}, 4},
		"the same twice":               {[]string{"192.0.2.1", "192.0.2.1"}, 1},
		"ranges and words":             {[]string{"0.0.0.0/0", "192.0.2.0/24", "::/0", "all", ""}, 0},
		"nobody's and everybody's":     {[]string{"0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "255.255.255.255"}, 0},
		"link-local":                   {[]string{"169.254.169.254", "fe80::1", "fe80::1%eth0"}, 0},
		"IPv4 in the form of IPv6":     {[]string{"::ffff:192.0.2.1"}, 0},
		"more than a report can have":  {many, model.MaxReportedAddresses},
		"no more once they are sorted": {append([]string{"zzz"}, many...), model.MaxReportedAddresses - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NodeReport(&v1alpha1.NodeReport{Status: v1alpha1.NodeReportStatus{Addresses: test.given}})
			if len(got.Addresses) != test.want {
				t.Errorf("%d addresses, want %d: %v", len(got.Addresses), test.want, got.Addresses)
			}
		})
	}
}

func TestNodeReportSurvivesItsObject(t *testing.T) {
	t.Parallel()
	report := model.NodeReport{
		Node: "n1", NodeUID: "uid-1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Tunnels: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Version: "v1",
	}
	if got := NodeReport(ReportOf(report)); !reflect.DeepEqual(*got, report) {
		t.Errorf("got %+v, want %+v", *got, report)
	}
	foreign := ReportOf(report)
	foreign.OwnerReferences = append(foreign.OwnerReferences, metav1.OwnerReference{Kind: "Node", Name: "n2", UID: "uid-2"})
	if got := NodeReport(foreign); got.NodeUID != "uid-1" {
		t.Errorf("it belongs to the Node with UID %q, want its own", got.NodeUID)
	}
}
