package connectivity

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// ownLabel is on all Networks and namespaces that the test has made; nothing without it is removed.
	ownLabel      = "app.kubernetes.io/managed-by"
	ownLabelValue = "atoll-connectivity"
	// appLabel names a pod, webLabel is on those behind the Service web.
	appLabel = "app"
	webLabel = "web"
	// program is where an image has package probe.
	program = "/usr/local/bin/atoll-probe"
	// nobodyUser is the user that the pods run as.
	nobodyUser = 65532
)

var ownLabels = map[string]string{ownLabel: ownLabelValue}

// DefaultCIDR is the subnet that both Networks have.
var DefaultCIDR = netip.MustParsePrefix("10.231.0.0/24")

// minHosts is how many bits of a range are left for addresses.
const minHosts = 5

// checkCIDR says what is wrong with a range for the Networks.
func checkCIDR(cidr netip.Prefix) error {
	if !cidr.IsValid() || !cidr.Addr().Is4() || cidr != cidr.Masked() || cidr.Bits() > 32-minHosts || cidr.Bits() < 8 {
		return fmt.Errorf("range %s: it must be of IPv4, without host bits, and from /8 to /%d", cidr, 32-minHosts)
	}
	return nil
}

// nth is the address that is so many after the first of a range.
func nth(cidr netip.Prefix, n byte) netip.Addr {
	bytes := cidr.Addr().As4()
	bytes[3] += n
	return netip.AddrFrom4(bytes)
}

// plan is what is to be made: where which pod runs, and with which address.
func plan(cidr netip.Prefix, nodes []string) []pod {
	near, far := nodes[0], nodes[len(nodes)-1]
	return []pod{
		{podName: redServer, node: near, address: nth(cidr, 10)},
		{podName: redNear, node: near, address: nth(cidr, 11)},
		{podName: redFar, node: far, address: nth(cidr, 12)},
		{podName: blueServer, node: near, address: nth(cidr, 10)},
		{podName: blueLonely, node: far, address: nth(cidr, 13)},
		{podName: plainPod, node: far},
		{podName: infraPod, node: near},
	}
}

// networks are red and blue: the same addresses, and only red has a way out.
func networks(cidr netip.Prefix) []*v1alpha1.Network {
	make1 := func(name string, egress v1alpha1.Egress) *v1alpha1.Network {
		return &v1alpha1.Network{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network"},
			ObjectMeta: metav1.ObjectMeta{Name: prefix + name, Labels: ownLabels},
			Spec: v1alpha1.NetworkSpec{
				Type: v1alpha1.NetworkVPC, Egress: egress,
				Subnets: []v1alpha1.Subnet{{Name: "pods", CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(cidr.String())}}},
			},
		}
	}
	return []*v1alpha1.Network{make1(red, v1alpha1.EgressNode), make1(blue, v1alpha1.EgressNone)}
}

// namespaces are those of the two Networks and of the default one. Their pods meet the strictest Pod Security level.
func namespaces() []*corev1.Namespace {
	var all []*corev1.Namespace
	for _, name := range []string{red, blue, plain, infra} {
		labels := map[string]string{ownLabel: ownLabelValue, "pod-security.kubernetes.io/enforce": "restricted"}
		switch name {
		case red, blue:
			labels[model.LabelNetwork] = prefix + name
		case infra:
			labels[model.LabelInfrastructure] = "true"
		}
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prefix + name, Labels: labels}})
	}
	return all
}

// image is what the pods run, and how it comes to nodes.
type image struct {
	name string
	pull corev1.PullPolicy
}

// object is a pod as it is created.
func (p pod) object(i image) *corev1.Pod {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	labels := map[string]string{appLabel: p.name, ownLabel: ownLabelValue}
	if p.podName != redNear {
		labels[webLabel] = "true"
	}
	annotations := map[string]string{}
	if p.address.IsValid() {
		annotations[model.AnnotationNICs] = fmt.Sprintf(`[{"ip":%q}]`, p.address)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: prefix + p.namespace, Name: p.name, Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{p.node}},
				}}},
			}}},
			// Where there are few other nodes.
			Tolerations:                   []corev1.Toleration{{Key: controlPlaneTaint, Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: new(int64(1)),
			EnableServiceLinks:            new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nobodyUser)), RunAsGroup: new(int64(nobodyUser)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: i.name, ImagePullPolicy: i.pull, Command: []string{program, "serve"},
				Env: []corev1.EnvVar{
					{Name: "POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
					{Name: "POD_NAME", ValueFrom: field("metadata.name")},
					{Name: "POD_UID", ValueFrom: field("metadata.uid")},
				},
				Ports: []corev1.ContainerPort{
					{Name: "tcp", ContainerPort: probe.Port}, {Name: "udp", ContainerPort: probe.Port, Protocol: corev1.ProtocolUDP},
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: probe.WhoPath, Port: intstr.FromInt32(probe.Port)}},
					PeriodSeconds: 1, FailureThreshold: 3,
				},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{
						Drop: []corev1.Capability{"ALL"},
					},
				},
			}},
		},
	}
}

// services are those of the two Networks: web in each, of which red's has a node port, too; and peers in red.
func services() []*corev1.Service {
	make1 := func(namespace, name string, spec corev1.ServiceSpec) *corev1.Service {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			spec.Ports = append(spec.Ports, corev1.ServicePort{
				Name: map[corev1.Protocol]string{corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp"}[protocol], Protocol: protocol, Port: probe.Port,
				TargetPort: intstr.FromInt32(probe.Port),
			})
		}
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: prefix + namespace, Name: name, Labels: ownLabels}, Spec: spec}
	}
	behind := map[string]string{webLabel: "true"}
	return []*corev1.Service{
		make1(red, web, corev1.ServiceSpec{Selector: behind, Type: corev1.ServiceTypeNodePort}),
		make1(blue, web, corev1.ServiceSpec{Selector: behind}),
		make1(red, peers, corev1.ServiceSpec{Selector: map[string]string{ownLabel: ownLabelValue}, ClusterIP: corev1.ClusterIPNone}),
	}
}

// denyPolicy shuts red's pod far, and allowPolicy admits red's pod near to it.
func denyPolicy() *networkingv1.NetworkPolicy { return policy("deny") }

func allowPolicy() *networkingv1.NetworkPolicy {
	return policy("allow", networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: redNear.name}}},
	}})
}

func policy(name string, rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: prefix + red, Name: name, Labels: ownLabels},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{appLabel: redFar.name}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules,
		},
	}
}
