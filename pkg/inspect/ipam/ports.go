package ipam

import (
	"net/netip"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// checkPorts finds ports in Networks' switches that have addresses for nobody that lives, or others than what is written on whom
// they are for.
func (c *addressCheck) checkPorts(rows snapshot.Northbound) {
	for _, row := range rows.Rows(nb.TableLogicalSwitch) {
		sw, ok := row.(*nb.LogicalSwitch)
		if !ok || !plan.Ours(sw) {
			continue
		}
		network := sw.ExternalIDs[nb.KeyNetwork]
		for _, uuid := range sw.Ports {
			row, there := rows.Row(nb.Ref{Table: nb.TableLogicalSwitchPort, UUID: uuid})
			port, ok := row.(*nb.LogicalSwitchPort)
			if !there || !ok || port.Type != "" {
				continue // It is the router's, or of no addresses.
			}
			if addresses := portAddresses(port); len(addresses) > 0 {
				c.checkPort(network, sw.Name, port, addresses)
			}
		}
	}
}

// portAddresses are the IP addresses of a port.
func portAddresses(port *nb.LogicalSwitchPort) (out []netip.Addr) {
	for _, element := range port.Addresses {
		for word := range strings.FieldsSeq(element) {
			if a, err := netip.ParseAddr(word); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

func (c *addressCheck) checkPort(network, sw string, port *nb.LogicalSwitchPort, addresses []netip.Addr) {
	owner, _ := nb.ParseOwner(port.ExternalIDs[nb.KeyOwner])
	remove := "remove it: ovn-nbctl lsp-del " + port.Name
	leak := func(next, who string) {
		c.find(network, api.FindingLeak, ledger.List(addresses), "Logical_Switch_Port/"+port.Name, next,
			"port %s of switch %s holds %s for nobody that lives: %s", port.Name, sw, ledger.List(addresses), who)
		c.taken(network, port, addresses, remove)
	}
	var written []netip.Addr
	switch owner.Kind {
	case nb.KindPod:
		p := c.Objects.Pods[model.PodKey{Namespace: owner.Namespace, Name: owner.Name}]
		if p == nil && c.Unread["pods"] {
			return
		}
		if p == nil || p.UID != port.ExternalIDs[nb.KeyUID] {
			leak("does a controller lead? It removes such ports at once: atoll status; and what does atoll check say?",
				"pod "+ObjectName(owner)+" does not exist, or is another one")
			return
		}
		for _, a := range p.Assigned {
			if (model.AttachmentKey{Pod: p.Key, Interface: a.Interface}).PortName() == port.Name && a.Network == network {
				written = addrs(a.Addresses)
			}
		}
	case nb.KindNode:
		n := c.Objects.Nodes[owner.Name]
		if n == nil && c.Unread["nodes"] {
			return
		}
		if n == nil || n.UID != port.ExternalIDs[nb.KeyUID] {
			leak("does a controller lead? It removes such ports at once: atoll status; and what does atoll check say?",
				"node "+owner.Name+" does not exist, or is another one")
			return
		}
		if n.Assigned != nil {
			written = addrs(n.Assigned.Addresses)
		}
	default:
		leak(remove+"; Atoll does not touch ports that are not its own", "it is not Atoll's")
		return
	}
	if !slices.Equal(sorted(written), sorted(addresses)) {
		c.find(network, api.FindingPortDiffers, ledger.List(addresses), object(owner),
			"does a controller lead? It writes both: atoll status; and what does atoll check say?",
			"%s has %s written on it, and its port in OVN has %s", ledger.Describe(owner), listOr(written, "no address"), ledger.List(addresses))
	}
}

// taken finds addresses of a port that is nobody's and that somebody has.
func (c *addressCheck) taken(network string, port *nb.LogicalSwitchPort, addresses []netip.Addr, next string) {
	for _, a := range c.all[network] {
		if slices.Contains(addresses, a.Address) {
			c.find(network, api.FindingDuplicate, a.Address.String(), object(a.Owner), next,
				"%s has %s, and so has port %s, which is for nobody that lives", ledger.Describe(a.Owner), a.Address, port.Name)
		}
	}
}

func sorted(list []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(list), netip.Addr.Compare)
}

// checkBalancers finds load balancers that have addresses of Services and Gateways that are not there.
func (c *addressCheck) checkBalancers(rows snapshot.Northbound) {
	for _, row := range rows.Rows(nb.TableLoadBalancer) {
		lb, ok := row.(*nb.LoadBalancer)
		if !ok || !plan.Ours(lb) {
			continue
		}
		owner, _ := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner])
		lives := owner.Kind != nb.KindService || c.Unread["services"] ||
			c.Objects.Services[model.ServiceKey{Namespace: owner.Namespace, Name: owner.Name}] != nil
		if isGateway(owner) {
			lives = gatewayLives(c.Held, owner)
		}
		if lives {
			continue
		}
		var addresses []netip.Addr
		for vip := range lb.Vips {
			a, err := netip.ParseAddr(vip)
			if p, hasPort := netip.ParseAddrPort(vip); hasPort == nil {
				a, err = p.Addr(), nil
			} else if host, _, near := strings.Cut(vip, ":"+nb.TemplateMark); near {
				a, err = netip.ParseAddr(host)
			}
			// What is kept for a while is at addresses that nobody has: see compile.RetainedBackends.
			if err == nil && !a.IsLoopback() && !discard.Contains(a) && !slices.Contains(addresses, a) {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) > 0 {
			c.find(lb.ExternalIDs[nb.KeyNetwork], api.FindingLeak, ledger.List(sorted(addresses)), "Load_Balancer/"+lb.Name,
				"does a controller lead? It removes such rows at once: atoll status; and what does atoll check say?",
				"load balancer %s has %s for %s, which does not exist", lb.Name, ledger.List(sorted(addresses)), object(owner))
		}
	}
}

// discard is for what is to be discarded. (RFC 6666.)
var discard = netip.MustParsePrefix("100::/64")
