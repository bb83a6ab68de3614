package intake

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func labelSet(m map[string]string) labels.Set { return m }

var decided = []model.Attachment{{
	PodUID: "u7", Interface: "eth0", Network: "red", Subnet: "front", MAC: "0a:00:00:00:00:01",
	Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24"), netip.MustParsePrefix("fd00::5/64")},
	Gateways:  []netip.Addr{netip.MustParseAddr("10.0.0.1")},
}}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "u7",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)),
			Annotations:       map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: "node1"},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestPodThatNeedsNothing(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"not scheduled": func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"host network":  func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"succeeded":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":        func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
	} {
		t.Run(name, func(t *testing.T) {
			if got := Pod(pod(change)); got != nil {
				t.Errorf("got %+v, want none", got)
			}
		})
	}
}

func TestPod(t *testing.T) {
	in := pod(func(p *corev1.Pod) {
		p.Labels = map[string]string{model.LabelNetwork: "red"}
		p.Annotations[model.AnnotationNICs] = `[{"subnet":"front","ip":"10.0.0.5","name":"eth0","network":"blue"}]`
		p.Annotations[model.AnnotationAttachments] = AttachmentsAnnotation(decided)
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 1},
		}}}
		p.Spec.InitContainers = []corev1.Container{
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "proxy", ContainerPort: 15001}}},
			{Ports: []corev1.ContainerPort{{Name: "once", ContainerPort: 2}}},
		}
	})
	want := &model.Pod{
		Labels: map[string]string{model.LabelNetwork: "red"},
		Ports: []model.PodPort{
			{Name: "dns", Protocol: model.UDP, Port: 53},
			{Name: "http", Protocol: model.TCP, Port: 8080},
			{Name: "proxy", Protocol: model.TCP, Port: 15001},
		},
		Key: model.PodKey{Namespace: "shop", Name: "web-0"}, UID: "u7", Node: "node1",
		Created: in.CreationTimestamp.Time, Network: "red", Assigned: decided,
		NIC: model.NICRequest{Network: "blue", Subnet: "front", IP: netip.MustParseAddr("10.0.0.5"), Name: "eth0"},
	}
	if diff := cmp.Diff(want, Pod(in), values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNamedPortsOfAPodAreBounded: those of all its containers together, the same ones whatever their order.
func TestNamedPortsOfAPodAreBounded(t *testing.T) {
	t.Parallel()
	read := func(containers int, up bool) []model.PodPort {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}
		for i := range containers {
			number := int32(1000 + i)
			if !up {
				number = int32(1000 + containers - 1 - i)
			}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
				Ports: []corev1.ContainerPort{{Name: "x", Protocol: corev1.ProtocolTCP, ContainerPort: number}},
			})
		}
		return Pod(p).Ports
	}
	if n := len(read(maxPodPorts, true)); n != maxPodPorts {
		t.Errorf("the control: %d ports at the bound", n)
	}
	up, down := read(1000, true), read(1000, false)
	if len(up) != maxPodPorts || !slices.Equal(up, down) || up[0].Port != 1000 {
		t.Errorf("%d ports, and %d in the other order", len(up), len(down))
	}
}

func TestNICRequest(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		" \n":                                    "",
		"[]":                                     "",
		"null":                                   "",
		"[{}]":                                   "",
		`[{"ip":"10.0.0.5"}]`:                    "",
		`[{"ip":"10.0.0.5"},{"ip":"10.0.0.6"}]`:  "2 interfaces are asked for; a pod has one for now",
		`[{"ip":"10.0.0"}]`:                      `ip: "10.0.0" is not an IP address`,
		`[{"ip":"10.0.0.5/24"}]`:                 `ip: "10.0.0.5/24" is not an IP address`,
		`[{"ip":"fe80::1%1"}]`:                   `ip: "fe80::1%1" names a zone, which has no meaning in a Network`,
		`[{"ip":7}]`:                             "ip must be text, not number",
		`[{"name":"net1"}]`:                      `name must be empty or eth0 for now, not "net1"`,
		`[{"adress":"10.0.0.5"}]`:                `unknown field "adress"; there are network, subnet, ip and name`,
		`{"ip":"10.0.0.5"}`:                      "must be a JSON list of objects, not object",
		`["10.0.0.5"]`:                           "must be a JSON list of objects, not string",
		`[{"ip":"10.0.0.5"`:                      "is not valid JSON",
		`[] []`:                                  "something follows the end of the list",
		"[" + strings.Repeat(" ", maxNICs) + "]": "4098 bytes; at most 4096 are read",
		`[{"subnet":"` + strings.Repeat("a", 254) + `"}]`: "network and subnet are names of at most 253 bytes",
	} {
		_, err := nicRequest(text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestPodSaysWhichAnnotationIsWrong(t *testing.T) {
	got := Pod(pod(func(p *corev1.Pod) { p.Annotations[model.AnnotationNICs] = "eth1" }))
	if want := "annotation atoll.dev/nics: is not valid JSON"; got.NICError != want || got.NIC != (model.NICRequest{}) {
		t.Errorf("got %q and %+v, want %q and nothing", got.NICError, got.NIC, want)
	}
}

func TestUnreadableAttachmentsAreNone(t *testing.T) {
	one := func(a string) string {
		return `[{"podUID":"u7","interface":"eth0","network":"n","addresses":` + a + `}]`
	}
	for _, text := range []string{
		"", "x", "null", "[]", "{}", one(`["10.0.0.5"]`), one(`[""]`), one(`["::ffff:10.0.0.1/120"]`),
		one(`["10.0.0.1/8","10.0.0.2/8","10.0.0.3/8"]`), one(`[]`) + "x",
		`[{"interface":"eth0"}]`, `[{"podUID":"u8","interface":"eth0"}]`,
		"[" + strings.Repeat(`{"podUID":"u7"},`, maxAttachmentCount) + `{"podUID":"u7"}]`, "[" + strings.Repeat(" ", maxAttachments) + "]",
		`[{"podUID":"u7","gateways":[""]}]`, `[{"podUID":"u7","gateways":["fe80::1%x"]}]`,
	} {
		if got := attachments(text, "u7"); got != nil {
			t.Errorf("%.60s was read as %+v", text, got)
		}
	}
}

func FuzzPod(f *testing.F) {
	f.Add(`[{"subnet":"a","ip":"10.0.0.5"}]`, AttachmentsAnnotation(decided))
	f.Add(`[{"name":"eth1"}]`, `[{"podUID":"u7","addresses":["::/0"]}]`)
	f.Add(`[{"`+strings.Repeat("ä", 3000)+`":1}]`, "")
	f.Fuzz(func(t *testing.T, nics, attached string) {
		got := Pod(pod(func(p *corev1.Pod) {
			p.Annotations[model.AnnotationNICs] = nics
			p.Annotations[model.AnnotationAttachments] = attached
		}))
		if got.NICError != "" && got.NIC != (model.NICRequest{}) {
			t.Errorf("both an error and a request: %q, %+v", got.NICError, got.NIC)
		}
		if len(got.NICError) > 1024 {
			t.Errorf("an error of %d bytes", len(got.NICError))
		}
		// What was read is written and read again as the same.
		again := attachments(AttachmentsAnnotation(got.Assigned), "u7")
		if diff := cmp.Diff(got.Assigned, again, values, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

func BenchmarkPod(b *testing.B) {
	for name, change := range map[string]func(*corev1.Pod){
		"plain":    nil,
		"asks":     func(p *corev1.Pod) { p.Annotations[model.AnnotationNICs] = `[{"subnet":"front","ip":"10.0.0.5"}]` },
		"attached": func(p *corev1.Pod) { p.Annotations[model.AnnotationAttachments] = AttachmentsAnnotation(decided) },
	} {
		b.Run(name, func(b *testing.B) {
			p := pod(change)
			b.ReportAllocs()
			for b.Loop() {
				if Pod(p) == nil {
					b.Fatal("no pod")
				}
			}
		})
	}
}

func BenchmarkAnnotations(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if !json.Valid([]byte(AttachmentsAnnotation(decided))) || NetworkStatusAnnotation(decided) == "" {
			b.Fatal("no annotation")
		}
	}
}

func TestPodWithTooLongAnnotations(t *testing.T) {
	for size, want := range map[int]bool{0: false, maxOthers - 100: false, maxOthers + 1: true, maxAnnotations: true} {
		got := Pod(pod(func(p *corev1.Pod) {
			p.Annotations["big"] = strings.Repeat("x", size)
			// Ours are replaced, and so do not count.
			p.Annotations[model.AnnotationAttachments] = strings.Repeat("x", 8<<10)
		})).Unwritable
		if (got != "") != want {
			t.Errorf("%d bytes: %q", size, got)
		}
	}
}
