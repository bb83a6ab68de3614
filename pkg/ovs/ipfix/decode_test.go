package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// message writes a message of sets.
func message(domain uint32, sets ...[]byte) []byte {
	out := slices.Concat(make([]byte, headerSize), bytes.Join(sets, nil))
	binary.BigEndian.PutUint16(out, version)
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	binary.BigEndian.PutUint32(out[12:], domain)
	return out
}

func set(id uint16, body ...byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, id)
	out = binary.BigEndian.AppendUint16(out, uint16(setHeaderSize+len(body)))
	return append(out, body...)
}

// template writes a template; an element with the enterprise's bit has an enterprise behind it.
func template(id uint16, fields ...field) []byte {
	body := binary.BigEndian.AppendUint16(nil, id)
	body = binary.BigEndian.AppendUint16(body, uint16(len(fields)))
	for _, f := range fields {
		body = binary.BigEndian.AppendUint16(body, f.element)
		body = binary.BigEndian.AppendUint16(body, f.length)
		if f.element&enterpriseBit != 0 {
			body = append(body, 0, 0, 0x1a, 0xdc)
		}
	}
	return body
}

func decode(t *testing.T, d *Decoder, text []byte) (out []Record, err error) {
	t.Helper()
	err = d.Decode(text, func(r Record) { out = append(out, r) })
	return out, err
}

// Fields that are not read are passed over, whatever their length; padding is no record.
func TestRecordsAreRead(t *testing.T) {
	t.Parallel()
	d := NewDecoder()
	fields := []field{
		{elementPoint, 4},
		{56, 6},
		{enterpriseBit | 891, 1},
		{82, variableLength},
		{elementProtocol, 1},
		{elementSourceV4, 4},
		{elementDestinationV4, 4},
		{elementSourcePort, 2},
		{elementDestinationPort, 2},
		{elementPackets, 8},
	}
	record := []byte{
		0, 0, 0, 77, 1, 2, 3, 4, 5, 6, 9, 3, 'e', 't', 'h', 6,
		10, 0, 0, 5, 10, 0, 0, 6, 0x80, 0, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 3,
	}
	records := set(300, append(append(append([]byte{}, record...), record...), 0, 0)...)
	if got, err := decode(t, d, message(9, records)); err != nil || len(got) > 0 || d.Unknown != 1 {
		t.Errorf("without a template: %v, %v, %d unknown", got, err, d.Unknown)
	}
	if _, err := decode(t, d, message(9, set(setTemplate, template(300, fields...)...))); err != nil {
		t.Fatal(err)
	}
	want := Record{
		Domain: 9, Point: 77, Source: netip.MustParseAddr("10.0.0.5"), Destination: netip.MustParseAddr("10.0.0.6"),
		Protocol: 6, SourcePort: 32768, DestinationPort: 8080, Packets: 3,
	}
	got, err := decode(t, d, message(9, records))
	if diff := cmp.Diff([]Record{want, want}, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); err != nil || diff != "" {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
	if got, err := decode(t, d, message(8, records)); err != nil || len(got) != 2 || got[0].Domain != 8 {
		t.Errorf("of another domain: %v, %v", got, err)
	}
	// One that is withdrawn is known no more.
	if _, err := decode(t, d, message(9, set(setTemplate, template(300)...))); err != nil {
		t.Fatal(err)
	}
	if got, err := decode(t, d, message(9, records)); err != nil || len(got) > 0 {
		t.Errorf("by a template that was withdrawn: %v, %v", got, err)
	}
}

// What is cut off anywhere is refused, and what is whole before it is not lost.
func TestWhatIsCutOffIsRefused(t *testing.T) {
	t.Parallel()
	whole := message(1, set(setTemplate, template(256, field{elementPoint, 4})...), set(256, 0, 0, 0, 7))
	if got, err := decode(t, NewDecoder(), whole); err != nil || len(got) != 1 {
		t.Fatalf("the whole is not read: %v, %v", got, err)
	}
	for n := range whole {
		if _, err := decode(t, NewDecoder(), whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	for _, text := range [][]byte{
		message(1, set(setTemplate, template(12, field{elementPoint, 4})...)),
		message(1, set(setTemplate, template(256, field{82, variableLength})...), set(256, 200, 1)),
	} {
		if _, err := decode(t, NewDecoder(), text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", text, err)
		}
	}
}

// Templates are bounded; those that were known before go on to be.
func TestTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	d := NewDecoder()
	for i := range 2 * MaxTemplates {
		if _, err := decode(t, d, message(1, set(setTemplate, template(uint16(256+i), field{elementPoint, 4})...))); err != nil {
			t.Fatal(err)
		}
	}
	many := make([]field, MaxFields+1)
	for i := range many {
		many[i] = field{elementPoint, 1}
	}
	if _, err := decode(t, d, message(1, set(setTemplate, template(9999, many...)...))); err != nil {
		t.Fatal(err)
	}
	if len(d.templates) != MaxTemplates || d.Refused != MaxTemplates+1 {
		t.Errorf("%d templates kept, %d refused", len(d.templates), d.Refused)
	}
	if got, err := decode(t, d, message(1, set(256, 0, 0, 0, 1))); err != nil || len(got) != 1 {
		t.Errorf("a template that was there first: %v, %v", got, err)
	}
}

// Whatever is sent, nothing fails, the bounds hold, and a record takes what a byte of the message is there for.
func FuzzDecode(f *testing.F) {
	f.Add(message(1, set(setTemplate, template(256, field{elementPoint, 4}, field{enterpriseBit | 1, 2})...)),
		message(1, set(256, 0, 0, 0, 7, 1, 1)))
	f.Add(message(1, set(setTemplate, template(256, field{82, variableLength}, field{elementSourceV6, 16})...)),
		message(1, set(256, 255, 0, 1, 1)))
	f.Add(message(1, set(setTemplate, template(256, field{elementPackets, 0})...)), message(1, set(256, 0, 0, 0, 7)))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := NewDecoder()
		for _, text := range [][]byte{first, second} {
			n := 0
			_ = d.Decode(text, func(Record) { n++ })
			if n > len(text) {
				t.Errorf("%d records of %d bytes", n, len(text))
			}
		}
		for id, fields := range d.templates {
			if len(fields) > MaxFields || id < leastDataSet {
				t.Errorf("template %d of %d fields", id, len(fields))
			}
		}
		if len(d.templates) > MaxTemplates {
			t.Errorf("%d templates", len(d.templates))
		}
	})
}
