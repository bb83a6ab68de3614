//go:build integration

package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// rangePlan is a Network that chose addresses which somebody else has, too.
type rangePlan struct {
	name  string
	cidrs []string
	// first is the address that a pod gets first, of each family; empty for any.
	first string
	// facesMeanPods: its faces are its pods', and no address of the Network's own.
	facesMeanPods bool
	// control: taken out, the pods' routes are missed.
	control bool
	// outside: it reaches a server beyond the node at an address that it does not have itself.
	outside bool
}

func rangePlans() []rangePlan {
	return []rangePlan{
		{name: "everything", cidrs: []string{"10.0.0.0/8"}, first: "10.0.0.2", facesMeanPods: true, outside: true, control: true},
		{name: "services", cidrs: []string{testServices}, first: "10.96.0.3", facesMeanPods: true, outside: true},
		{name: "some-services", cidrs: []string{"10.96.0.0/28", "fd00:96::/124"}, first: "10.96.0.3", facesMeanPods: true, outside: true},
		{name: "more-than-services", cidrs: []string{"10.96.0.0/12", "fd00:96::/64"}, first: "10.97.0.1", facesMeanPods: true, outside: true},
		{name: "nodes", cidrs: []string{"192.0.2.0/24"}, first: "192.0.2.2", facesMeanPods: true, outside: true},
		{name: "home", cidrs: []string{"10.128.0.0/16", "fd00:128::/64"}, first: "10.128.0.2", facesMeanPods: true, outside: true},
		{name: "faces", cidrs: []string{"100.64.0.0/10", "fd64:a701::/64"}, first: "100.64.0.2", outside: true},
		{name: "six-services", cidrs: []string{"fd00:96::/112"}, first: "fd00:96::3", facesMeanPods: true, outside: true, control: true},
		{name: "abroad", cidrs: []string{"198.51.100.0/24", "2001:db8:51::/64"}, first: "198.51.100.2", facesMeanPods: true},
	}
}

// rangedWorld is a node with a cluster that has names, an API and Services, and names served in portholes.
func rangedWorld(t *testing.T) *judged {
	t.Helper()
	j := newJudged(t)
	j.names = j.newTestNames(j.agent)
	j.names.start()
	j.service("kube-system", "kube-dns", 53, nil, testDNS, "fd00:96::a")
	j.change(func(c *model.Changes) { c.Namespaces["default"] = &model.Namespace{Name: "default"} })
	j.service("default", "kubernetes", 443, nil, testAPI, "fd00:96::1")
	serveName(t, here, net.JoinHostPort(testEncapIP, "6443"), "api")
	serveName(t, here, net.JoinHostPort(j.world.nodeV6, "6443"), "api")
	serveName(t, j.world.inside, ":80", "outside")
	return j
}

// service makes a Service with a port, and pods behind it.
func (j *judged) service(namespace, name string, port uint16, behind []*testPod, clusterIPs ...string) {
	s := &model.Service{
		Key: model.ServiceKey{Namespace: namespace, Name: name}, UID: "uid-of-" + namespace + "-" + name, Created: time.Unix(1, 0),
	}
	for _, a := range clusterIPs {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(a))
	}
	s.Ports = []model.ServicePort{{Protocol: model.TCP, Port: port}}
	j.change(func(c *model.Changes) {
		c.Services[s.Key] = s
		for family := range 2 {
			key := model.SliceKey{Namespace: namespace, Name: name + string(rune('a'+family))}
			slice := &model.Slice{Key: key, UID: "uid-of-" + key.Name, Service: name, Ports: []model.SlicePort{{Protocol: model.TCP, Port: 80}}}
			for _, p := range behind {
				for _, face := range p.nic.Faces {
					if face.Is4() == (family == 0) {
						slice.Endpoints = append(slice.Endpoints, model.Endpoint{
							Address: face, Pod: p.request.Pod.Key(), PodUID: p.request.Pod.UID, Ready: true, Serving: true,
						})
					}
				}
			}
			c.Slices[key] = slice
		}
	})
}

// join makes a Network of a plan with its namespace.
func (j *judged) join(p rangePlan) {
	n := vpc(p.name)
	n.Finalized, n.Subnets = true, []model.Subnet{{Name: "a"}}
	for _, cidr := range p.cidrs {
		n.Subnets[0].CIDRs = append(n.Subnets[0].CIDRs, netip.MustParsePrefix(cidr))
	}
	j.change(func(c *model.Changes) {
		c.Networks[n.Name] = n
		c.Namespaces[n.Name] = &model.Namespace{Name: n.Name, Labels: map[string]string{model.LabelNetwork: n.Name}}
	})
	j.agent.world.SetNetwork(n)
	j.names.add(n.Name, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.200.80", ClusterIPs: []string{"10.96.200.80", "fd00:96::c850"}},
	})
}

// answers waits until a server answers a pod by its name.
func answers(t *testing.T, from *testPod, address netip.Addr, port, name string) {
	t.Helper()
	err := wait.For(t.Context(), wait.Patience, func(context.Context) error {
		answer, err := ask(from.inside, net.JoinHostPort(address.String(), port))
		if err == nil && !strings.HasPrefix(answer, name+" ") {
			err = errors.New(answer)
		}
		return err
	})
	if err != nil {
		t.Errorf("%s: %s port %s: %v, want %s", from.request.Pod.Key(), address, port, err, name)
	}
}

// TestEveryRangeHasNamesAPIAndServicesWithPackets: whatever addresses a Network chose, its pods reach each other, are probed, and have
// names, the Kubernetes API, their Services by ClusterIP and the way out.
func TestEveryRangeHasNamesAPIAndServicesWithPackets(t *testing.T) {
	j := rangedWorld(t)
	for _, plan := range rangePlans() {
		t.Run(plan.name, func(t *testing.T) {
			j.join(plan)
			near, far := j.pod(plan.name, "near", "", "near"), j.pod(plan.name, "far", "", "far")
			for _, p := range []*testPod{near, far} {
				serveName(t, p.inside, ":80", p.request.Pod.Name)
			}
			if got := near.nic.Addresses[0].Addr().String(); got != plan.first {
				t.Errorf("the first pod has %s, want %s", got, plan.first)
			}
			j.service(plan.name, "web", 80, []*testPod{far}, "10.96.200.80", "fd00:96::c850")
			for i, own := range far.nic.Addresses {
				v4 := own.Addr().Is4()
				pick := func(four, six string) netip.Addr {
					if v4 {
						return netip.MustParseAddr(four)
					}
					return netip.MustParseAddr(six)
				}
				answers(t, near, own.Addr(), "80", "far")
				answers(t, far, near.nic.Addresses[i].Addr(), "80", "near")
				wantAnswer(t, here, net.JoinHostPort(far.nic.Faces[i].String(), "80"), "far sees "+pick(ownNode, ownNode6).String())
				if plan.facesMeanPods {
					answers(t, near, far.nic.Faces[i], "80", "far")
				}
				answers(t, near, pick(testAPI, "fd00:96::1"), "443", "api")
				answers(t, near, pick("10.96.200.80", "fd00:96::c850"), "80", "far")
				if plan.outside {
					answers(t, near, pick(j.world.v4, j.world.v6), "80", "outside")
				}
				j.wantName(t, near, pick(testDNS, "fd00:96::a"), "web."+plan.name+".svc.cluster.local.", pick("10.96.200.80", "fd00:96::c850"))
			}
			// Without the routes that the pod's link has for it, that link is asked, and nobody answers.
			if plan.control {
				near.onOwnLink(t)
				address := netip.AddrPortFrom(netip.MustParseAddr(testAPI), 443)
				if near.nic.Addresses[0].Addr().Is6() {
					address = netip.MustParseAddrPort("[fd00:96::1]:443")
				}
				if answer, err := ask(near.inside, address.String()); err == nil {
					t.Errorf("without routes the API answers all the same: %q", answer)
				}
			}
			for _, p := range []*testPod{near, far} {
				must(t, j.agent.Del(t.Context(), p.request))
			}
			// An address that a slice names is given last, in a Network whose addresses look like faces, too.
			j.change(func(c *model.Changes) {
				for _, name := range []string{"weba", "webb"} {
					c.Slices[model.SliceKey{Namespace: plan.name, Name: name}] = nil
				}
			})
		})
	}
}

// onOwnLink takes the routes away by which a pod asks its router for what lies in its own subnet.
func (p *testPod) onOwnLink(t *testing.T) {
	t.Helper()
	must(t, p.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Gw == nil || r.Dst == nil {
				continue
			}
			if ones, _ := r.Dst.Mask.Size(); ones == 0 {
				continue
			}
			if err := netlink.RouteDel(&r); err != nil {
				return err
			}
		}
		return nil
	}))
}

// wantName waits until a pod is told an address under a name.
func (j *judged) wantName(t *testing.T, from *testPod, server netip.Addr, name string, want netip.Addr) {
	t.Helper()
	kind := dns.TypeA
	if want.Is6() {
		kind = dns.TypeAAAA
	}
	var answer *dns.Msg
	err := from.inside(func() (err error) {
		m := new(dns.Msg)
		m.SetQuestion(name, kind)
		answer, _, err = (&dns.Client{Timeout: 5 * time.Second}).ExchangeContext(t.Context(), m, net.JoinHostPort(server.String(), "53"))
		return err
	})
	if err != nil {
		t.Errorf("%s asks %s for %s: %v", from.request.Pod.Key(), server, name, err)
		return
	}
	for _, rr := range answer.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			if rr.A.String() == want.String() {
				return
			}
		case *dns.AAAA:
			if rr.AAAA.String() == want.String() {
				return
			}
		}
	}
	t.Errorf("%s is told %v of %s, want %s", from.request.Pod.Key(), answer, name, want)
}
