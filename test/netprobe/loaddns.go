package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// dnsPatience is how long a DNS question waits for its answer. A pod's resolver would ask again then: the load does not.
const dnsPatience = 2 * time.Second

type dnsAsker struct {
	server string
	client dns.Client
}

func newDNS(transport string) func(netip.AddrPort) asker {
	return func(at netip.AddrPort) asker {
		return &dnsAsker{at.String(), dns.Client{Net: transport, Timeout: dnsPatience}}
	}
}

// ask asks for a name that every Network has, from a socket of its own.
func (a *dnsAsker) ask(string) (wire.Identity, bool, error) {
	question := new(dns.Msg)
	question.SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)
	m, _, err := a.client.Exchange(question, a.server)
	if err == nil && (m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0) {
		err = fmt.Errorf("answered %s", dns.RcodeToString[m.Rcode])
	}
	return wire.Identity{UID: a.server}, true, withoutAddresses(err)
}

func (*dnsAsker) Close() error { return nil }
