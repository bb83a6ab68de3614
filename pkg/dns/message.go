package dns

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	// maxQuery is how many bytes of a question are read; with all its options it has a few hundred.
	maxQuery = 4096
	// maxUDP is the largest reply by UDP, in bytes, whatever the asker says it can take: it passes every link of IPv6
	// without fragments, which are lost more often than a question by TCP costs (www.dnsflagday.net/2020).
	maxUDP = 1232
	// headerSize is that of a DNS message, in bytes (RFC 1035).
	headerSize = 12
	// smallestRecord is how many bytes an address record takes at least.
	smallestRecord = 16
)

// query is a question that makes sense.
type query struct {
	request *dns.Msg
	// options are those of EDNS (RFC 6891); nil when the asker does not have it.
	options *dns.OPT
	// size is how many bytes the reply may have.
	size int
}

func (q query) question() dns.Question { return q.request.Question[0] }

// readQuery reads a packet. What cannot be followed gets a reply at once, which may be nil: to what is no question, none
// is due.
func readQuery(packet []byte, tcp bool) (query, *dns.Msg) {
	var q query
	if len(packet) < headerSize {
		return q, nil
	}
	bits := binary.BigEndian.Uint16(packet[2:])
	const isReply, opcodeAt, recursionDesired = 1 << 15, 11, 1 << 8
	if bits&isReply != 0 {
		return q, nil
	}
	bare := &dns.Msg{MsgHdr: dns.MsgHdr{
		Id: binary.BigEndian.Uint16(packet), Response: true, Opcode: int(bits >> opcodeAt & 0xf),
		RecursionDesired: bits&recursionDesired != 0, Rcode: dns.RcodeFormatError,
	}}
	switch counts := [4]uint16{
		binary.BigEndian.Uint16(packet[4:]), binary.BigEndian.Uint16(packet[6:]),
		binary.BigEndian.Uint16(packet[8:]), binary.BigEndian.Uint16(packet[10:]),
	}; {
	case bare.Opcode != dns.OpcodeQuery:
		bare.Rcode = dns.RcodeNotImplemented
		return q, bare
	// One question; IXFR has a record in the third section, and is refused later; options and a signature in the fourth.
	case counts[0] != 1 || counts[1] != 0 || counts[2] > 1 || counts[3] > 2:
		return q, bare
	}
	request := new(dns.Msg)
	if err := request.Unpack(packet); err != nil || len(request.Question) != 1 {
		return q, bare
	}
	q = query{request: request, size: dns.MinMsgSize}
	for _, rr := range request.Extra {
		if opt, is := rr.(*dns.OPT); is {
			if q.options != nil {
				return q, bare
			}
			q.options = opt
		}
	}
	switch {
	case tcp:
		q.size = dns.MaxMsgSize
	case q.options != nil:
		q.size = min(maxUDP, max(dns.MinMsgSize, int(q.options.UDPSize())))
	}
	if q.options != nil && q.options.Version() != 0 {
		return q, q.reply(dns.RcodeBadVers)
	}
	return q, q.refusal()
}

// refusal is the reply to what is never answered: classes other than IN, transfers of zones, and types that are none.
func (q query) refusal() *dns.Msg {
	asked := q.question()
	switch {
	case asked.Qclass != dns.ClassINET:
		return q.reply(dns.RcodeRefused)
	// Types from 128 to 255 are for questions only (RFC 6895), OPT for messages.
	case asked.Qtype >= 128 && asked.Qtype <= 255 && asked.Qtype != dns.TypeANY, asked.Qtype == dns.TypeOPT, asked.Qtype == 0:
		return q.reply(dns.RcodeRefused)
	}
	return nil
}

// reply is an empty reply. It is that of a resolver, which is what pods take us for.
func (q query) reply(rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.SetRcode(q.request, rcode)
	m.RecursionAvailable = true
	if q.options != nil {
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.SetUDPSize(maxUDP)
		if q.options.Do() {
			opt.SetDo()
		}
		m.Extra = append(m.Extra, opt)
	}
	return m
}

// explain adds words for the person who debugs (RFC 8914); they are seen by those who ask with EDNS, as dig does.
func explain(m *dns.Msg, code uint16, text string) {
	if opt := m.IsEdns0(); opt != nil {
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
	}
}

// pack writes a reply into at most size bytes; what does not fit is left out, and the asker is told to ask by TCP.
func pack(m *dns.Msg, size int) ([]byte, error) {
	cut := m.Truncated
	m.Truncate(size)
	m.Truncated = m.Truncated || cut
	m.Compress = true
	return m.Pack()
}
