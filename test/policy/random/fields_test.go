package random

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// These are the clusters and packets that a short run tries.
const (
	clusters = 60
	packets  = 50
)

// TestEveryFieldMatters: somebody who misreads a field of the API is found out by a short run. Each misreading is made of the
// objects themselves, and has to change the verdict of some of the packets.
func TestEveryFieldMatters(t *testing.T) {
	const enough = 3
	draw := Case(packets)
	for name, misread := range misreadings() {
		t.Run(name, func(t *testing.T) {
			changed, seed := 0, 0
			for changed < enough && seed < clusters {
				seed++
				right, wrong := draw.Example(seed), draw.Example(seed)
				misread(&wrong)
				for i := range right.Packets {
					if right.Judge(right.Packets[i].Packet).Allowed != wrong.Judge(wrong.Packets[i].Packet).Allowed {
						changed++
					}
				}
			}
			t.Logf("%d of %d packets", changed, seed*packets)
			if changed < enough {
				t.Errorf("only %d of %d packets would show it", changed, clusters*packets)
			}
		})
	}
}

// misreadings change a case into what a wrong reader sees.
func misreadings() map[string]func(*cases.Case) {
	ports := func(do func(*netv1.NetworkPolicyPort)) func(*cases.Case) {
		return func(c *cases.Case) {
			eachRule(c, func(ports []netv1.NetworkPolicyPort, _ []netv1.NetworkPolicyPeer) {
				for i := range ports {
					do(&ports[i])
				}
			})
		}
	}
	peers := func(do func(*netv1.NetworkPolicyPeer)) func(*cases.Case) {
		return func(c *cases.Case) {
			eachRule(c, func(_ []netv1.NetworkPolicyPort, peers []netv1.NetworkPolicyPeer) {
				for i := range peers {
					do(&peers[i])
				}
			})
		}
	}
	cluster := func(do func(*policyv1alpha2.ClusterNetworkPolicySpec)) func(*cases.Case) {
		return func(c *cases.Case) {
			for i := range c.ClusterPolicies {
				do(&c.ClusterPolicies[i].Spec)
			}
		}
	}
	egress := func(do func(*policyv1alpha2.ClusterNetworkPolicyEgressPeer)) func(*cases.Case) {
		return cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) {
			for i := range s.Egress {
				for j := range s.Egress[i].To {
					do(&s.Egress[i].To[j])
				}
			}
		})
	}
	actions := func(from, to policyv1alpha2.ClusterNetworkPolicyRuleAction) func(*cases.Case) {
		return cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) {
			for i := range s.Ingress {
				if s.Ingress[i].Action == from {
					s.Ingress[i].Action = to
				}
			}
			for i := range s.Egress {
				if s.Egress[i].Action == from {
					s.Egress[i].Action = to
				}
			}
		})
	}
	protocols := func(do func(*policyv1alpha2.ClusterNetworkPolicyProtocol)) func(*cases.Case) {
		return cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) {
			for i := range s.Ingress {
				for j := range s.Ingress[i].Protocols {
					do(&s.Ingress[i].Protocols[j])
				}
			}
			for i := range s.Egress {
				for j := range s.Egress[i].Protocols {
					do(&s.Egress[i].Protocols[j])
				}
			}
		})
	}
	none := metav1.LabelSelector{MatchLabels: map[string]string{"none": "none"}}
	return map[string]func(*cases.Case){
		"protocol": ports(func(p *netv1.NetworkPolicyPort) { p.Protocol = nil }),
		"port":     ports(func(p *netv1.NetworkPolicyPort) { p.Port, p.EndPort = nil, nil }),
		"endPort":  ports(func(p *netv1.NetworkPolicyPort) { p.EndPort = nil }),
		"named port": ports(func(p *netv1.NetworkPolicyPort) {
			if p.Port != nil && p.Port.Type == intstr.String {
				p.Port.StrVal = "none"
			}
		}),
		"ipBlock.cidr": peers(func(p *netv1.NetworkPolicyPeer) {
			if p.IPBlock != nil {
				p.IPBlock.CIDR = "198.18.0.0/32"
			}
		}),
		"ipBlock.except": peers(func(p *netv1.NetworkPolicyPeer) {
			if p.IPBlock != nil {
				p.IPBlock.Except = nil
			}
		}),
		"podSelector alone": peers(func(p *netv1.NetworkPolicyPeer) {
			if p.NamespaceSelector == nil && p.PodSelector != nil {
				p.NamespaceSelector = &metav1.LabelSelector{}
			}
		}),
		"podSelector beside namespaceSelector": peers(func(p *netv1.NetworkPolicyPeer) {
			if p.NamespaceSelector != nil {
				p.PodSelector = nil
			}
		}),
		"namespaceSelector beside podSelector": peers(func(p *netv1.NetworkPolicyPeer) {
			if p.PodSelector != nil {
				p.NamespaceSelector = nil
			}
		}),
		"matchExpressions": peers(func(p *netv1.NetworkPolicyPeer) {
			for _, s := range []*metav1.LabelSelector{p.PodSelector, p.NamespaceSelector} {
				if s != nil {
					s.MatchExpressions = nil
				}
			}
		}),
		"matchLabels": peers(func(p *netv1.NetworkPolicyPeer) {
			for _, s := range []*metav1.LabelSelector{p.PodSelector, p.NamespaceSelector} {
				if s != nil {
					s.MatchLabels = nil
				}
			}
		}),
		"spec.podSelector": func(c *cases.Case) {
			for i := range c.Policies {
				c.Policies[i].Spec.PodSelector = metav1.LabelSelector{}
			}
		},
		"spec.policyTypes": func(c *cases.Case) {
			for i := range c.Policies {
				c.Policies[i].Spec.PolicyTypes = nil
			}
		},
		"no policyTypes": func(c *cases.Case) {
			for i, p := range c.Policies {
				if p.Spec.PolicyTypes == nil {
					c.Policies[i].Spec.PolicyTypes = []netv1.PolicyType{netv1.PolicyTypeIngress}
				}
			}
		},
		"tier": cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) {
			tiers := []policyv1alpha2.Tier{policyv1alpha2.AdminTier, policyv1alpha2.BaselineTier}
			s.Tier = tiers[1-slices.Index(tiers, s.Tier)]
		}),
		"priority":   cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) { s.Priority = 1000 - s.Priority }),
		"rule order": cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) { slices.Reverse(s.Ingress); slices.Reverse(s.Egress) }),
		"subject": cluster(func(s *policyv1alpha2.ClusterNetworkPolicySpec) {
			s.Subject = policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
		}),
		"Pass":     actions(policyv1alpha2.ClusterNetworkPolicyRuleActionPass, policyv1alpha2.ClusterNetworkPolicyRuleActionAccept),
		"Accept":   actions(policyv1alpha2.ClusterNetworkPolicyRuleActionAccept, policyv1alpha2.ClusterNetworkPolicyRuleActionPass),
		"Deny":     actions(policyv1alpha2.ClusterNetworkPolicyRuleActionDeny, policyv1alpha2.ClusterNetworkPolicyRuleActionPass),
		"networks": egress(func(p *policyv1alpha2.ClusterNetworkPolicyEgressPeer) { p.Networks = networksOrNone(p.Networks) }),
		"protocols": protocols(func(p *policyv1alpha2.ClusterNetworkPolicyProtocol) {
			*p = policyv1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: "none"}
		}),
		"destinationNamedPort": protocols(func(p *policyv1alpha2.ClusterNetworkPolicyProtocol) {
			if p.DestinationNamedPort != "" {
				p.DestinationNamedPort = "none"
			}
		}),
		"nodes": egress(func(p *policyv1alpha2.ClusterNetworkPolicyEgressPeer) {
			if p.Nodes != nil {
				p.Nodes = &none
			}
		}),
		"unknown peers": egress(func(p *policyv1alpha2.ClusterNetworkPolicyEgressPeer) {
			if p.Namespaces == nil && p.Pods == nil && p.Nodes == nil && p.Networks == nil {
				p.Namespaces = &none
			}
		}),
		"sidecars": func(c *cases.Case) {
			for i := range c.Pods {
				c.Pods[i].Spec.InitContainers = nil
			}
		},
		"doors":    func(c *cases.Case) { c.Doors = nil },
		"own node": func(c *cases.Case) { eachEnd(c, func(e *oracle.End, _ *cases.Packet) { e.Node = "" }) },
		"addresses of other nodes": func(c *cases.Case) {
			eachEnd(c, func(e *oracle.End, p *cases.Packet) {
				if !slices.ContainsFunc(c.Pods, func(pod oracle.Pod) bool { return pod.Key() == p.To.Pod && pod.Spec.NodeName == e.Node }) {
					e.Node = ""
				}
			})
		},
		"Services": func(c *cases.Case) {
			for i, p := range c.Packets {
				if p.Dial.IsValid() {
					c.Packets[i].To, c.Packets[i].Port = oracle.End{Address: p.Dial.Addr()}, p.Dial.Port()
				}
			}
		},
		"faces": func(c *cases.Case) {
			for i := range c.Pods {
				c.Pods[i].Faces = nil
			}
		},
		"compatible": func(c *cases.Case) { c.Compatible = nil },
		"who serves whom": func(c *cases.Case) {
			for i, x := range c.Compatible {
				c.Compatible[i] = oracle.Compatibility{Provider: x.Consumer, Consumer: x.Provider}
			}
		},
		// The mistake that Networks are there to exclude: a peer is looked for by its address, wherever it is.
		"Networks": func(c *cases.Case) {
			for i := range c.Pods {
				if c.Pods[i].Network != "" {
					c.Pods[i].Network = cases.Red
				}
			}
			eachEnd(c, func(e *oracle.End, p *cases.Packet) {
				p.Network = cases.Red
				if at := slices.IndexFunc(c.Pods, func(pod oracle.Pod) bool { return slices.Contains(pod.Addresses, e.Address) }); at >= 0 &&
					e.Pod == "" {
					e.Pod = c.Pods[at].Key()
				}
			})
		},
		"protocol SCTP": func(c *cases.Case) {
			for i, p := range c.Packets {
				if p.Protocol == corev1.ProtocolSCTP {
					c.Packets[i].Protocol = corev1.ProtocolUDP
				}
			}
		},
	}
}

func networksOrNone(in []policyv1alpha2.CIDR) []policyv1alpha2.CIDR {
	if len(in) == 0 {
		return nil
	}
	return []policyv1alpha2.CIDR{"198.18.0.0/32"}
}

func eachRule(c *cases.Case, do func([]netv1.NetworkPolicyPort, []netv1.NetworkPolicyPeer)) {
	for _, p := range c.Policies {
		for _, r := range p.Spec.Ingress {
			do(r.Ports, r.From)
		}
		for _, r := range p.Spec.Egress {
			do(r.Ports, r.To)
		}
	}
}

func eachEnd(c *cases.Case, do func(*oracle.End, *cases.Packet)) {
	for i := range c.Packets {
		do(&c.Packets[i].From, &c.Packets[i])
		do(&c.Packets[i].To, &c.Packets[i])
	}
}
