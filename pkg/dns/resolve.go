package dns

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// errand is a question that has to be taken to the node's resolvers; reply is what is known so far.
type errand struct {
	query query
	reply *dns.Msg
	key   cacheKey
	// own: the name is the one that was asked, and not one that an alias leads to.
	own bool
}

// resolve answers from what this Network knows; what is left to ask elsewhere comes back as an errand.
func (s *Server) resolve(q query) (*dns.Msg, *errand) {
	asked := q.question()
	policy := s.policy.Load()
	most := q.size / smallestRecord
	at := question{name: asked.Name, kind: asked.Qtype, most: most, from: int(q.request.Id)}
	out, known := s.zone.lookup(at)
	if !known {
		out, known = policy.local(at, s.ranges)
	}
	if !known {
		return s.away(q, q.reply(dns.RcodeSuccess), asked.Name)
	}
	if out.alias != "" && asked.Qtype != dns.TypeANY {
		// The alias leads out of the Zone: what is there, or why not, completes the reply.
		target := question{name: out.alias, kind: asked.Qtype, most: most}
		end, local := policy.local(target, s.ranges)
		if !local {
			m := q.reply(dns.RcodeSuccess)
			m.Answer = out.answer
			return s.away(q, m, out.alias)
		}
		end.answer = slices.Concat(out.answer, end.answer)
		out = end
	}
	return s.reply(q, out), nil
}

// reply writes an answer of ours.
func (s *Server) reply(q query, out answer) *dns.Msg {
	m := q.reply(out.rcode)
	m.Authoritative = true
	m.Truncated = out.cut
	if q.question().Qtype == dns.TypeANY && out.rcode == dns.RcodeSuccess {
		m.Answer = anyAnswer(q.question().Name)
		return m
	}
	m.Answer = out.answer
	m.Extra = append(out.extra, m.Extra...)
	if out.rcode == dns.RcodeNameError || out.rcode == dns.RcodeSuccess && !answers(out.answer, q.question().Qtype) {
		zone := out.zone
		if zone == "" {
			zone = s.zone.domain
		}
		m.Ns = []dns.RR{s.zone.soaOf(zone)}
	}
	if out.denied != "" {
		explain(m, dns.ExtendedErrorCodeBlocked, out.denied)
	}
	if out.rcode == dns.RcodeServerFailure {
		m.Authoritative = false
		explain(m, dns.ExtendedErrorCodeNotReady, "The names of this cluster are not known yet.")
	}
	return m
}

// answers reports whether a record of the type that was asked for is there.
func answers(rrs []dns.RR, kind uint16) bool {
	return slices.ContainsFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype == kind })
}

// anyAnswer is all that is said to those who ask for everything (RFC 8482).
func anyAnswer(name string) []dns.RR {
	return []dns.RR{&dns.HINFO{Hdr: header(name, dns.TypeHINFO, ttl), Cpu: "RFC8482"}}
}

// away is what is done about a name that only the node's resolvers know: the cache may have it.
func (s *Server) away(q query, m *dns.Msg, name string) (*dns.Msg, *errand) {
	asked := q.question()
	switch {
	case asked.Qtype == dns.TypeANY:
		m.Answer = anyAnswer(asked.Name)
		return m, nil
	case !q.request.RecursionDesired:
		m.Rcode = dns.RcodeRefused
		return m, nil
	}
	e := &errand{query: q, reply: m, own: name == asked.Name, key: cacheKey{
		name: lower(name), kind: asked.Qtype, signed: q.options != nil && q.options.Do(), unchecked: q.request.CheckingDisabled,
	}}
	if found := s.forward.cache.get(e.key, time.Now()); found != nil {
		s.counters.forwarded(forwardCached)
		return e.complete(found), nil
	}
	return m, e
}

// run does an errand that has a slot. Whoever asks gets a reply in any case.
func (s *Server) run(ctx context.Context, e *errand) *dns.Msg {
	found, err := s.forward.ask(ctx, e.key)
	if err != nil {
		s.counters.forwarded(forwardFailed)
		s.log.LogAttrs(ctx, slog.LevelDebug, "question to the node's resolvers failed", slog.Any("error", err))
		return e.fail("The node's resolvers did not answer.")
	}
	s.counters.forwarded(forwardAnswered)
	return e.complete(found)
}

// begin takes a slot for somebody's errand, or is the reply that says that there is none.
func (s *Server) begin(who netip.Addr, e *errand) *dns.Msg {
	if s.forward.slots.take(who) {
		return nil
	}
	s.counters.forwarded(forwardLimited)
	return e.fail("Too many questions of this Network wait for the node's resolvers.")
}

func (e *errand) fail(why string) *dns.Msg {
	e.reply.Rcode = dns.RcodeServerFailure
	e.reply.Answer = nil
	explain(e.reply, dns.ExtendedErrorCodeNetworkError, why)
	return e.reply
}

// complete puts what was found elsewhere into the reply, under the name as it was asked.
func (e *errand) complete(found *dns.Msg) *dns.Msg {
	m := e.reply
	m.Rcode = found.Rcode
	if e.own {
		asked := e.query.question().Name
		for _, rr := range found.Answer {
			if h := rr.Header(); lower(h.Name) == e.key.name {
				h.Name = asked
			}
		}
	}
	m.Answer = append(m.Answer, found.Answer...)
	m.Ns = found.Ns
	for _, rr := range found.Extra {
		if h := rr.Header(); h.Rrtype != dns.TypeOPT && h.Rrtype != dns.TypeTSIG {
			m.Extra = append([]dns.RR{rr}, m.Extra...)
		}
	}
	return m
}
