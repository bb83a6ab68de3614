package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The chunks that set up an association and end it. (RFC 9260, section 3.2.)
const (
	chunkInit       = 1
	chunkInitAck    = 2
	chunkAbort      = 6
	chunkCookieEcho = 10
	chunkCookieAck  = 11
)

// paramCookie is the parameter of INIT ACK that the client sends back. (RFC 9260, section 3.3.3.)
const paramCookie = 7

// Lengths in octets.
const (
	headerLength = 12
	chunkHeader  = 4
	// initLength is the fixed part of INIT and of INIT ACK, behind the chunk's header.
	initLength = 16
)

// packet is an SCTP packet with one chunk. (RFC 9260, section 3.)
type packet struct {
	from, to uint16
	// tag is the verification tag: the one that the receiver chose, 0 in INIT.
	tag   uint32
	chunk byte
	// initiate is the tag that the sender of INIT or INIT ACK chose.
	initiate uint32
	// cookie is that of INIT ACK and COOKIE ECHO.
	cookie []byte
}

func (p packet) bytes() []byte {
	var value []byte
	switch p.chunk {
	case chunkInit, chunkInitAck:
		value = binary.BigEndian.AppendUint32(value, p.initiate)
		value = binary.BigEndian.AppendUint32(value, 65536) // receiver window
		value = binary.BigEndian.AppendUint16(value, 1)     // streams, out and in
		value = binary.BigEndian.AppendUint16(value, 1)
		value = binary.BigEndian.AppendUint32(value, p.initiate) // first TSN
		if p.chunk == chunkInitAck {
			value = binary.BigEndian.AppendUint16(value, paramCookie)
			value = binary.BigEndian.AppendUint16(value, uint16(chunkHeader+len(p.cookie)))
			value = append(value, p.cookie...)
		}
	case chunkCookieEcho:
		value = p.cookie
	}
	out := binary.BigEndian.AppendUint16(nil, p.from)
	out = binary.BigEndian.AppendUint16(out, p.to)
	out = binary.BigEndian.AppendUint32(out, p.tag)
	out = append(out, 0, 0, 0, 0, p.chunk, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(chunkHeader+len(value)))
	out = append(out, value...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[8:], checksum(out))
	return out
}

var errMalformed = errors.New("no packet that this program knows")

// parsePacket reads the first chunk of a packet.
func parsePacket(in []byte) (packet, error) {
	if len(in) < headerLength+chunkHeader || binary.LittleEndian.Uint32(in[8:]) != checksum(in) {
		return packet{}, errMalformed
	}
	p := packet{
		from: binary.BigEndian.Uint16(in), to: binary.BigEndian.Uint16(in[2:]), tag: binary.BigEndian.Uint32(in[4:]), chunk: in[headerLength],
	}
	length := int(binary.BigEndian.Uint16(in[headerLength+2:]))
	if length < chunkHeader || headerLength+length > len(in) {
		return packet{}, errMalformed
	}
	value := in[headerLength+chunkHeader : headerLength+length]
	switch p.chunk {
	case chunkInit, chunkInitAck:
		if len(value) < initLength {
			return packet{}, errMalformed
		}
		p.initiate = binary.BigEndian.Uint32(value)
		if p.chunk == chunkInitAck {
			parameter := value[initLength:]
			if len(parameter) < chunkHeader || binary.BigEndian.Uint16(parameter) != paramCookie ||
				int(binary.BigEndian.Uint16(parameter[2:])) != len(parameter) {
				return packet{}, errMalformed
			}
			p.cookie = parameter[chunkHeader:]
		}
	case chunkCookieEcho:
		p.cookie = value
	}
	return p, nil
}

// checksum is that of a packet whose own checksum counts as 0. (RFC 9260, appendix A.)
func checksum(in []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, in[:8])
	sum = crc32.Update(sum, table, make([]byte, 4))
	return crc32.Update(sum, table, in[headerLength:])
}
