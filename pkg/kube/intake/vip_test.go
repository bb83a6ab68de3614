package intake

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestServiceCIDRs(t *testing.T) {
	for name, test := range map[string]struct {
		given []v1alpha1.CIDR
		want  []string
		says  string
	}{
		"none":          {nil, nil, ""},
		"both families": {[]v1alpha1.CIDR{"fd09::/112", "10.9.0.0/16"}, []string{"fd09::/112", "10.9.0.0/16"}, ""},
		"two of a family": {
			[]v1alpha1.CIDR{"10.9.0.0/16", "10.8.0.0/16"}, []string{"10.9.0.0/16"}, "10.8.0.0/16 is a second IPv4 range; a Network has one",
		},
		"one that is none": {[]v1alpha1.CIDR{"all", "10.9.0.0/16"}, []string{"10.9.0.0/16"}, `"all" is not a range such as 10.0.0.0/16`},
		"host bits":        {[]v1alpha1.CIDR{"10.9.0.1/16"}, nil, "the range is 10.9.0.0/16"},
		"thousands":        {make([]v1alpha1.CIDR, 5000), nil, "there are 5000 ranges; at most 8 are read"},
	} {
		n := Network(&v1alpha1.Network{Spec: v1alpha1.NetworkSpec{Type: v1alpha1.NetworkVPC, ServiceCIDRs: test.given}})
		var got []string
		for _, p := range n.ServiceCIDRs {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !strings.Contains(n.ServiceCIDRsError, test.says) || (test.says == "") != (n.ServiceCIDRsError == "") ||
			len(n.ServiceCIDRsError) > 4096 {
			t.Errorf("%s: it says %q, want %q", name, n.ServiceCIDRsError, test.says)
		}
	}
}

func TestServiceIPs(t *testing.T) {
	for name, test := range map[string]struct{ given, want, says string }{
		"none":            {" ", "", ""},
		"one":             {"10.9.0.5", "10.9.0.5", ""},
		"both, with room": {" fd09::5 , 10.9.0.5", "10.9.0.5 fd09::5", ""},
		"two of a family": {"10.9.0.5,10.9.0.6", "", "10.9.0.6 is a second IPv4 address; a Service has one"},
		"a word":          {"any", "", `"any" is not an IP address`},
		"nothing between": {"10.9.0.5,", "", `"" is not an IP address`},
		"mapped":          {"::ffff:10.9.0.5", "", "write it as 10.9.0.5"},
		"a zone":          {"fe80::1%eth0", "", "names a zone"},
		"very long":       {strings.Repeat("1", 1000), "", "1000 bytes; at most 256 are read"},
	} {
		s := Service(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{model.AnnotationServiceIPs: test.given}},
			Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.5"}},
		})
		var got []string
		for _, a := range s.Wanted {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != test.want || !strings.Contains(s.WantedError, test.says) || (test.says == "") != (s.WantedError == "") {
			t.Errorf("%s: %q, it says %q; want %q and %q", name, got, s.WantedError, test.want, test.says)
		}
	}
}

func TestServiceAddresses(t *testing.T) {
	good := model.ServiceAddresses{
		ServiceUID: "u1", Network: "red", NetworkUID: "u2",
		Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.5"), netip.MustParseAddr("fd09::5")},
	}
	text := ServiceAddressesAnnotation(good)
	created := metav1.NewTime(time.Unix(1000, 0))
	s := Service(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			UID: "u1", CreationTimestamp: created, Annotations: map[string]string{model.AnnotationServiceAddresses: text},
		},
		Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.5"}},
	})
	if diff := cmp.Diff(&good, s.Assigned, values); diff != "" {
		t.Errorf("what was written (-want +got):\n%s", diff)
	}
	if !s.Created.Equal(created.Time) {
		t.Errorf("created at %s", s.Created)
	}
	for name, bad := range map[string]string{
		"empty":                   "",
		"of another":              strings.Replace(text, "u1", "u9", 1),
		"no JSON":                 text[1:],
		"no addresses":            strings.Replace(text, `["10.9.0.5","fd09::5"]`, "[]", 1),
		"two of a family":         strings.Replace(text, "fd09::5", "10.9.0.6", 1),
		"mapped":                  strings.Replace(text, "fd09::5", "::ffff:10.9.0.5", 1),
		"a zone":                  strings.Replace(text, "fd09::5", "fe80::1%a", 1),
		"a word":                  strings.Replace(text, "fd09::5", "any", 1),
		"null":                    "null",
		"refused, with addresses": strings.Replace(text, `"addresses"`, `"refused":true,"addresses"`, 1),
		"very long":               text + strings.Repeat(" ", 2000),
	} {
		if got := ServiceAddresses(bad, "u1"); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	refused := model.ServiceAddresses{ServiceUID: "u1", Refused: true}
	if text := ServiceAddressesAnnotation(refused); text != `{"serviceUID":"u1","refused":true}` {
		t.Errorf("of one that is refused: %s", text)
	} else if diff := cmp.Diff(&refused, ServiceAddresses(text, "u1")); diff != "" {
		t.Errorf("of one that is refused (-want +got):\n%s", diff)
	}
}

func TestPublishedAddresses(t *testing.T) {
	vip, proxy := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy
	for _, test := range []struct {
		name string
		edit func(*corev1.Service)
		want string
	}{
		{"two families", func(*corev1.Service) {}, "203.0.113.5 2001:db8::5"},
		{"one family", func(s *corev1.Service) { s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1] }, "203.0.113.5"},
		{"another type", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, ""},
		{"for some clients only", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"} }, ""},
		{"said to be virtual", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = &vip }, "203.0.113.5 2001:db8::5"},
		{"a proxy", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = &proxy }, "2001:db8::5"},
		{"a name", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress[0] = corev1.LoadBalancerIngress{Hostname: "lb.example.com"}
		}, "2001:db8::5"},
		{"twice", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[1].IP = "203.0.113.5" }, "203.0.113.5"},
		{"for a link", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "169.254.169.254" }, "2001:db8::5"},
		{"this machine", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "127.0.0.1" }, "2001:db8::5"},
		{"many", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "224.0.0.5" }, "2001:db8::5"},
		{"nonsense", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "203.0.113" }, "2001:db8::5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &corev1.Service{
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.5", "fd96::5"}},
				Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
					{IP: "203.0.113.5"}, {IP: "2001:db8::5"},
				}}},
			}
			test.edit(in)
			var got []string
			for _, a := range Service(in).Published {
				got = append(got, a.String())
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("published at %q, want %q", got, test.want)
			}
		})
	}
}
