package dns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Times to live in seconds.
const (
	// ttl is that of records that follow the cluster: a pod that goes is not told of for longer.
	ttl = 5
	// ttlSchema is that of the schema's version.
	ttlSchema = 28800
)

// schemaVersion is that of the Kubernetes DNS specification.
const schemaVersion = "1.1.0"

// maxAliases bounds how many aliases of the Zone an answer follows.
const maxAliases = 8

// question is a question of class IN.
type question struct {
	// name as it was asked; answers repeat it with its case (draft-vixie-dnsext-dns0x20).
	name string
	kind uint16
	// most is how many records of each section the asker can take. Whoever can take fewer than there are gets others each
	// time: from is where the answer begins.
	most, from int
}

// answer is what a Zone knows.
type answer struct {
	rcode  int
	answer []dns.RR
	extra  []dns.RR
	// zone is where a denial comes from (the owner of its SOA).
	zone string
	// alias is a name outside of the Zone, to which the answer leads.
	alias string
	// cut: there are more records than the asker can take.
	cut bool
	// denied says in plain words why the question is not followed; empty when nothing was withheld.
	denied string
}

// lookup answers from the Zone. It reports false for names that the Zone has no say in.
func (z *Zone) lookup(q question) (answer, bool) {
	name := lower(q.name)
	z.mu.RLock()
	defer z.mu.RUnlock()
	if name == z.domain || strings.HasSuffix(name, "."+z.domain) {
		return z.forward(name, q), true
	}
	addr, zone := reverseAddr(name)
	if zone == "" {
		return answer{}, false
	}
	at := z.pointersOf(addr)
	if len(at) == 0 {
		return answer{}, false
	}
	out := answer{zone: zone}
	if q.kind == dns.TypePTR {
		for _, p := range at[:min(len(at), q.most)] {
			out.answer = append(out.answer, &dns.PTR{Hdr: header(q.name, dns.TypePTR, ttl), Ptr: z.nameOf(p.service, p.host)})
		}
		out.cut = len(at) > q.most
	}
	return out, true
}

// forward answers names under the domain, and follows aliases within it.
func (z *Zone) forward(name string, q question) answer {
	var out answer
	for range maxAliases {
		step, alias := z.step(name, q)
		out.answer = append(out.answer, step.answer...)
		out.extra = append(out.extra, step.extra...)
		out.rcode, out.zone, out.cut = step.rcode, z.domain, out.cut || step.cut
		switch {
		case alias == "" || q.kind == dns.TypeCNAME:
			return out
		case !dns.IsSubDomain(z.domain, alias):
			out.alias = alias
			return out
		}
		q.name, name = alias, lower(alias)
	}
	out.rcode = dns.RcodeServerFailure
	return out
}

// step answers one name under the domain; it returns the name that it is an alias of, if it is one.
func (z *Zone) step(name string, q question) (answer, string) {
	labels := dns.SplitDomainName(strings.TrimSuffix(strings.TrimSuffix(name, z.domain), "."))
	exists, none := answer{}, answer{rcode: dns.RcodeNameError}
	if !z.complete {
		none.rcode = dns.RcodeServerFailure
	}
	n := len(labels)
	switch {
	case n == 0:
		return z.apex(q), ""
	case n == 1 && labels[0] == "dns-version":
		if q.kind == dns.TypeTXT {
			exists.answer = []dns.RR{&dns.TXT{Hdr: header(q.name, dns.TypeTXT, ttlSchema), Txt: []string{schemaVersion}}}
		}
		return exists, ""
	case n <= 2 && labels[n-1] == "dns":
		return z.server(labels[:n-1], q, none), ""
	case labels[n-1] != "svc" && labels[n-1] != "pod":
		// What the domain holds is known without any list.
		return answer{rcode: dns.RcodeNameError}, ""
	case n == 1:
		return exists, ""
	case z.namespaces[labels[n-2]] == nil:
		return none, ""
	case n == 2:
		return exists, ""
	case labels[n-1] == "pod":
		return pod(labels[:n-2], q), ""
	}
	return z.service(ServiceKey{Namespace: labels[n-2], Name: labels[n-3]}, labels[:n-3], q, none)
}

// apex answers the domain itself.
func (z *Zone) apex(q question) answer {
	switch q.kind {
	case dns.TypeSOA:
		soa := z.soa(z.domain, z.serial)
		soa.Hdr.Name = q.name
		return answer{answer: []dns.RR{soa}}
	case dns.TypeNS:
		return answer{answer: []dns.RR{&dns.NS{Hdr: header(q.name, dns.TypeNS, ttl), Ns: "ns.dns." + z.domain}}}
	}
	return answer{}
}

// server answers the server's own name, ns.dns, and the empty name above it.
func (z *Zone) server(front []string, q question, none answer) answer {
	switch {
	case len(front) == 0:
		return answer{}
	case front[0] != "ns":
		none.rcode = dns.RcodeNameError
		return none
	}
	var out answer
	for _, a := range z.servers {
		if rr := address(q.name, a, q.kind); rr != nil {
			out.answer = append(out.answer, rr)
		}
	}
	return out
}

// pod answers names that hold an address themselves, such as 10-0-0-5.namespace.pod: it tells nothing that the asker
// did not know, and needs no list of pods. So does CoreDNS where a cluster has Kubernetes' own configuration of it.
func pod(front []string, q question) answer {
	if len(front) != 1 {
		return answer{rcode: dns.RcodeNameError}
	}
	text := strings.ReplaceAll(front[0], "-", ":")
	if strings.Count(front[0], "-") == 3 && !strings.Contains(front[0], "--") {
		text = strings.ReplaceAll(front[0], "-", ".")
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return answer{rcode: dns.RcodeNameError}
	}
	var out answer
	if rr := address(q.name, a.Unmap(), q.kind); rr != nil {
		out.answer = []dns.RR{rr}
	}
	return out
}

// service answers a Service's name with what stands in front of it: nothing, an endpoint, or port and protocol.
func (z *Zone) service(key ServiceKey, front []string, q question, none answer) (answer, string) {
	r := z.services[key]
	if r == nil {
		return none, ""
	}
	if r.service.ExternalName != "" {
		return external(r.service, front, q, none)
	}
	var w wanted
	switch {
	case len(front) > 2:
		return none, ""
	case len(front) == 2:
		port, isPort := strings.CutPrefix(front[0], "_")
		protocol, isProtocol := strings.CutPrefix(front[1], "_")
		if !isPort || !isProtocol || port == "" || protocol == "" {
			return none, ""
		}
		w.port, w.protocol = port, protocol
	case len(front) == 1:
		if protocol, is := strings.CutPrefix(front[0], "_"); is && r.hasProtocol(protocol) {
			return answer{}, ""
		}
		w.host = front[0]
	}
	at := r.find(w)
	if len(at) == 0 {
		return none, ""
	}
	switch q.kind {
	case dns.TypeA, dns.TypeAAAA:
		return addresses(at, q), ""
	case dns.TypeSRV:
		return z.locations(key, at, w, q), ""
	}
	return answer{}, ""
}

// external answers the name of a Service that is an alias. One whose name is an address in fact does not exist: an
// alias leads to a name.
func external(s *Service, front []string, q question, none answer) (answer, string) {
	target := dns.Fqdn(s.ExternalName)
	_, isName := dns.IsDomainName(target)
	if _, err := netip.ParseAddr(s.ExternalName); len(front) > 0 || err == nil || !isName {
		return none, ""
	}
	alias := &dns.CNAME{Hdr: header(q.name, dns.TypeCNAME, ttl), Target: target}
	return answer{answer: []dns.RR{alias}}, target
}

// addresses are the A or AAAA records, beginning anywhere, each address once.
func addresses(at []endpoint, q question) answer {
	var out answer
	var first, last netip.Addr
	for i := range at {
		a := at[(i+q.from)%len(at)].addr
		if a == last || a == first {
			continue
		}
		rr := address(q.name, a, q.kind)
		if rr == nil {
			continue
		}
		if len(out.answer) == q.most {
			out.cut = true
			break
		}
		if last = a; !first.IsValid() {
			first = a
		}
		out.answer = append(out.answer, rr)
	}
	return out
}

// locations are the SRV records: one for each endpoint, or for the Service itself, and each port. Their weights share
// one hundred (RFC 2782). The addresses of their targets come with them.
func (z *Zone) locations(key ServiceKey, at []endpoint, w wanted, q question) answer {
	weight := uint16(max(1, 100/len(at)))
	var out answer
	type target struct {
		host string
		port uint16
	}
	type location struct {
		host string
		addr netip.Addr
	}
	// All endpoints of a slice share its ports: of a host that has many addresses they are gone through once.
	type offered struct {
		host  string
		ports *Port
	}
	told, located, done := map[target]bool{}, map[location]bool{}, map[offered]bool{}
	add := func(e endpoint) {
		name, ports := z.nameOf(key, e.host), e.ports
		if len(ports) > 0 {
			if of := (offered{e.host, &ports[0]}); done[of] {
				ports = nil
			} else {
				done[of] = true
			}
		}
		for _, p := range ports {
			if t := (target{e.host, p.Number}); w.matches(p) && !told[t] {
				if len(out.answer) == q.most {
					out.cut = true
					return
				}
				told[t] = true
				out.answer = append(out.answer, &dns.SRV{
					Hdr: header(q.name, dns.TypeSRV, ttl), Weight: weight, Port: p.Number, Target: name,
				})
			}
		}
		if l := (location{e.host, e.addr}); len(out.extra) < q.most && !located[l] {
			located[l] = true
			kind := dns.TypeAAAA
			if e.addr.Is4() {
				kind = dns.TypeA
			}
			out.extra = append(out.extra, address(name, e.addr, kind))
		}
	}
	for i := range at {
		if add(at[(i+q.from)%len(at)]); out.cut {
			break
		}
	}
	if len(out.answer) == 0 {
		out.extra = nil
	}
	return out
}

// nameOf is the full name of a Service, or of an endpoint of it.
func (z *Zone) nameOf(s ServiceKey, host string) string {
	name := s.Name + "." + s.Namespace + ".svc." + z.domain
	if host != "" {
		name = host + "." + name
	}
	return name
}

// soaOf is what a denial says about the zone that it comes from: for how long it holds (RFC 2308).
func (z *Zone) soaOf(zone string) *dns.SOA {
	z.mu.RLock()
	defer z.mu.RUnlock()
	return z.soa(zone, z.serial)
}

func (z *Zone) soa(zone string, serial uint32) *dns.SOA {
	return &dns.SOA{
		Hdr: header(zone, dns.TypeSOA, ttl), Ns: "ns.dns." + z.domain, Mbox: "hostmaster." + z.domain,
		Serial: serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

// address is the A or AAAA record of an address; nil when it has none of that type.
func address(name string, a netip.Addr, kind uint16) dns.RR {
	switch {
	case kind == dns.TypeA && a.Is4():
		return &dns.A{Hdr: header(name, kind, ttl), A: a.AsSlice()}
	case kind == dns.TypeAAAA && a.Is6():
		return &dns.AAAA{Hdr: header(name, kind, ttl), AAAA: a.AsSlice()}
	}
	return nil
}

func header(name string, kind uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// lower is a name as it is compared: only ASCII letters have a case (RFC 4343).
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}
