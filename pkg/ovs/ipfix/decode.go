// Package ipfix reads what an exporter of flows sends: messages of IPFIX (RFC 7011) by UDP, as Open vSwitch writes them.
//
// In flow datagrams; out flow records, with the information elements that Record has. Others are passed over. What must stay true:
//
//   - No datagram, whoever wrote it, makes a Decoder fail, or grow beyond its bounds.
//   - A record whose template is not known is counted and never guessed.
package ipfix

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// The sizes and numbers of RFC 7011, section 3.
const (
	version         = 10
	headerSize      = 16
	setHeaderSize   = 4
	setTemplate     = 2
	setOptions      = 3
	leastDataSet    = 256
	enterpriseBit   = 0x8000
	variableLength  = 0xffff
	longVariable    = 0xff
	fieldSize       = 4
	enterpriseBytes = 4
)

const (
	// MaxTemplates is how many templates a Decoder keeps. Open vSwitch has less than a hundred.
	MaxTemplates = 1024
	// MaxFields is how many fields a template may have. Those of Open vSwitch have some forty.
	MaxFields = 128
)

// Information elements that are read (IANA, IPFIX Information Elements).
const (
	elementProtocol        = 4
	elementSourcePort      = 7
	elementSourceV4        = 8
	elementDestinationPort = 11
	elementDestinationV4   = 12
	elementSourceV6        = 27
	elementDestinationV6   = 28
	elementPackets         = 2
	elementBytes           = 1
	elementPoint           = 138
)

// Record is one record of a flow.
type Record struct {
	// Domain is the observation domain of its message, and Point its observation point.
	Domain uint32
	Point  uint32
	// Source and Destination are not valid where the record has none: it is of no IP packet.
	Source, Destination netip.Addr
	Protocol            uint8
	// SourcePort and DestinationPort are 0 where the protocol has none.
	SourcePort, DestinationPort uint16
	// Packets and Bytes are what came since the last record of the flow.
	Packets, Bytes uint64
}

// ErrMalformed is what is not a message of IPFIX, or is cut off.
var ErrMalformed = errors.New("malformed IPFIX message")

// field is one of a template: length is in bytes. What enterprises define has element 0, which no element that is read has.
type field struct{ element, length uint16 }

// Decoder reads the messages of one exporter. One goroutine uses it.
//
// RFC 7011 gives each observation domain templates of its own. An Open vSwitch has the same in all, of which there may be
// thousands, and sends them for each. So the Decoder knows a template by its number.
type Decoder struct {
	templates map[uint16][]field
	// Unknown counts sets of records whose template was not known.
	Unknown uint64
	// Refused counts templates that were beyond the bounds.
	Refused uint64
}

// NewDecoder makes a Decoder that knows no template.
func NewDecoder() *Decoder { return &Decoder{templates: map[uint16][]field{}} }

// Decode reads one message and hands each of its records to yield. What comes before something malformed is handed on.
func (d *Decoder) Decode(message []byte, yield func(Record)) error {
	if len(message) < headerSize || binary.BigEndian.Uint16(message) != version {
		return ErrMalformed
	}
	length := int(binary.BigEndian.Uint16(message[2:]))
	if length < headerSize || length > len(message) {
		return ErrMalformed
	}
	domain := binary.BigEndian.Uint32(message[12:])
	for rest := message[headerSize:length]; len(rest) > 0; {
		if len(rest) < setHeaderSize {
			return ErrMalformed
		}
		id, size := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[2:]))
		if size < setHeaderSize || size > len(rest) {
			return ErrMalformed
		}
		body := rest[setHeaderSize:size]
		rest = rest[size:]
		switch {
		case id == setTemplate:
			if err := d.learn(body); err != nil {
				return err
			}
		case id == setOptions || id < leastDataSet:
			// Of the exporter itself, or reserved.
		default:
			if err := d.records(domain, id, body, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn reads a set of templates. What is left of a set and too short for a template is padding.
func (d *Decoder) learn(body []byte) error {
	for len(body) >= setHeaderSize {
		id := binary.BigEndian.Uint16(body)
		count := int(binary.BigEndian.Uint16(body[2:]))
		if id < leastDataSet {
			return ErrMalformed
		}
		body = body[setHeaderSize:]
		fields := make([]field, 0, min(count, MaxFields))
		for range count {
			if len(body) < fieldSize {
				return ErrMalformed
			}
			f := field{binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])}
			body = body[fieldSize:]
			if f.element&enterpriseBit != 0 {
				if len(body) < enterpriseBytes {
					return ErrMalformed
				}
				f.element, body = 0, body[enterpriseBytes:]
			}
			if len(fields) < MaxFields {
				fields = append(fields, f)
			}
		}
		_, known := d.templates[id]
		switch {
		case count == 0:
			// It is withdrawn.
			delete(d.templates, id)
		case count > MaxFields, !known && len(d.templates) >= MaxTemplates:
			d.Refused++
		default:
			d.templates[id] = fields
		}
	}
	return nil
}

// records reads a set of records of one template. What is left and shorter than a record is padding.
func (d *Decoder) records(domain uint32, id uint16, body []byte, yield func(Record)) error {
	fields, known := d.templates[id]
	if !known {
		d.Unknown++
		return nil
	}
	least := shortest(fields)
	if least == 0 {
		// Its records would be endless.
		return ErrMalformed
	}
	for len(body) >= least {
		r := Record{Domain: domain}
		for _, f := range fields {
			size := int(f.length)
			if f.length == variableLength {
				if len(body) < 1 {
					return ErrMalformed
				}
				size, body = int(body[0]), body[1:]
				if size == longVariable {
					if len(body) < 2 {
						return ErrMalformed
					}
					size, body = int(binary.BigEndian.Uint16(body)), body[2:]
				}
			}
			if len(body) < size {
				return ErrMalformed
			}
			r.set(f.element, body[:size])
			body = body[size:]
		}
		yield(r)
	}
	return nil
}

// shortest is the least that a record of these fields takes.
func shortest(fields []field) int {
	n := 0
	for _, f := range fields {
		if f.length == variableLength {
			n++
		} else {
			n += int(f.length)
		}
	}
	return n
}

func (r *Record) set(element uint16, value []byte) {
	switch element {
	case elementPoint:
		r.Point = uint32(number(value))
	case elementProtocol:
		r.Protocol = uint8(number(value))
	case elementSourcePort:
		r.SourcePort = uint16(number(value))
	case elementDestinationPort:
		r.DestinationPort = uint16(number(value))
	case elementPackets:
		r.Packets = number(value)
	case elementBytes:
		r.Bytes = number(value)
	case elementSourceV4, elementSourceV6:
		r.Source, _ = netip.AddrFromSlice(value)
	case elementDestinationV4, elementDestinationV6:
		r.Destination, _ = netip.AddrFromSlice(value)
	}
}

// number reads an unsigned number, which may be sent in fewer bytes than it has. (RFC 7011, section 6.2.)
func number(value []byte) uint64 {
	if len(value) > 8 {
		return 0
	}
	var n uint64
	for _, b := range value {
		n = n<<8 | uint64(b)
	}
	return n
}
