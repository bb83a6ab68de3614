package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// expression is a match or a part of it. not: its opposite, as OVN has it: what a field needs to be there at all is asked for
// either way, so that a packet of IPv6 meets neither ip4.src == 10.0.0.1 nor its opposite.
type expression func(p Packet, not bool) (bool, error)

// parser reads a match from the left. (ovn-sb(5), Logical_Flow: match.)
type parser struct {
	tokens []token
	db     *Database
	// starts are where ports begin about which the match may say something else.
	starts map[model.Protocol][]uint16
}

// matching is a match that has been read.
type matching struct {
	holds  expression
	starts map[model.Protocol][]uint16
}

// parse reads a whole match, each text once.
func (db *Database) parse(match string) (matching, error) {
	if known, has := db.matches[match]; has {
		return known, nil
	}
	all, err := tokens(match)
	if err != nil {
		return matching{}, err
	}
	p := &parser{tokens: all, db: db, starts: map[model.Protocol][]uint16{}}
	e, err := p.alternatives()
	if err != nil {
		return matching{}, err
	}
	if t := p.peek(); t.kind != end {
		return matching{}, fmt.Errorf("%q is not expected", t.text)
	}
	out := matching{e, p.starts}
	db.matches[match] = out
	return out, nil
}

func (p *parser) peek() token {
	if len(p.tokens) == 0 {
		return token{}
	}
	return p.tokens[0]
}

func (p *parser) next() token {
	t := p.peek()
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

// take takes a sign if it comes next.
func (p *parser) take(text string) bool {
	if t := p.peek(); t.kind != sign || t.text != text {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) error {
	if !p.take(text) {
		return fmt.Errorf("%q where %q is expected", p.peek().text, text)
	}
	return nil
}

// alternatives are expressions of which one must hold, or one expression.
func (p *parser) alternatives() (expression, error) {
	return p.list("||", p.conjunction, func(not bool) bool { return not })
}

// conjunction are expressions that must all hold, or one expression.
func (p *parser) conjunction() (expression, error) {
	return p.list("&&", p.single, func(not bool) bool { return !not })
}

// list reads expressions with a sign between them. all says whether all of them must hold: the opposite of an alternative
// is that the opposite of each holds.
func (p *parser) list(between string, read func() (expression, error), all func(not bool) bool) (expression, error) {
	var parts []expression
	for {
		e, err := read()
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
		if !p.take(between) {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return func(packet Packet, not bool) (bool, error) {
		for _, e := range parts {
			holds, err := e(packet, not)
			if err != nil || holds != all(not) {
				return holds, err
			}
		}
		return all(not), nil
	}, nil
}

func (p *parser) single() (expression, error) {
	if p.take("!") {
		e, err := p.single()
		if err != nil {
			return nil, err
		}
		return func(packet Packet, not bool) (bool, error) { return e(packet, !not) }, nil
	}
	if p.take("(") {
		e, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	}
	t := p.next()
	switch {
	case t.kind == word && t.text == "is_chassis_resident":
		return p.resident()
	case t.kind == word && (t.text == "1" || t.text == "0"):
		return func(_ Packet, not bool) (bool, error) { return (t.text == "1") != not, nil }, nil
	case t.kind == word:
		return p.field(t.text)
	}
	return nil, fmt.Errorf("%q is not understood", t.text)
}

// resident reads the function that asks whether a port is where the packet is judged: at the node of the port that sends or
// receives it.
func (p *parser) resident() (expression, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	name := p.next()
	if name.kind != quoted {
		return nil, fmt.Errorf("is_chassis_resident of %q", name.text)
	}
	return func(packet Packet, not bool) (bool, error) {
		chassis := p.db.chassisOf(name.text)
		return (chassis != "" && chassis == packet.chassis) != not, nil
	}, p.expect(")")
}

// field reads what is said of a field.
func (p *parser) field(name string) (expression, error) {
	f, known := fields[name]
	if !known {
		return nil, fmt.Errorf("the field %s is not understood", name)
	}
	if f.is != nil {
		return func(packet Packet, not bool) (bool, error) {
			return (f.needs == nil || f.needs(packet)) && f.is(packet) != not, p.db.spend(1)
		}, nil
	}
	relation := p.next()
	if relation.kind != sign || !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, relation.text) {
		return nil, fmt.Errorf("%q after the field %s", relation.text, name)
	}
	values, err := p.values()
	if err != nil {
		return nil, err
	}
	if protocol, port := strings.CutSuffix(name, portSuffix); port {
		for _, v := range values {
			if edges := v.edges(); len(edges) > 0 {
				p.starts[model.Protocol(protocol)] = append(p.starts[model.Protocol(protocol)], edges...)
			}
		}
	}
	return func(packet Packet, not bool) (bool, error) {
		if err := p.db.spend(1 + len(values)/ValuesOfWork); err != nil {
			return false, err
		}
		if f.needs != nil && !f.needs(packet) {
			return false, nil
		}
		holds, err := f.compare(packet, relation.text, values)
		return holds != not, err
	}, nil
}

// values reads a value, or several in braces. A set's name stands for what it holds.
func (p *parser) values() ([]value, error) {
	if !p.take("{") {
		return p.value()
	}
	var out []value
	for !p.take("}") {
		more, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
		p.take(",")
	}
	return out, nil
}

func (p *parser) value() ([]value, error) {
	t := p.next()
	switch t.kind {
	case quoted:
		return []value{{port: t.text}}, nil
	case portGroup:
		g := p.db.group(t.text)
		if g == nil {
			return nil, fmt.Errorf("there is no port group %s", t.text)
		}
		return p.db.set("@"+t.text, func() []value {
			var out []value
			for _, port := range p.db.portsOf(g) {
				out = append(out, value{port: port.Name})
			}
			return out
		}), nil
	case addressSet:
		return p.db.addresses(t.text)
	case word:
		mask := ""
		if p.take("/") {
			mask = p.next().text
		}
		v, err := constant(t.text, mask)
		return []value{v}, err
	case end, sign:
	}
	return nil, fmt.Errorf("%q is no value", t.text)
}

// portsOf are the ports of a group that are there.
func (db *Database) portsOf(g *nb.PortGroup) []*nb.LogicalSwitchPort {
	var out []*nb.LogicalSwitchPort
	for _, id := range g.Ports {
		if port := db.portByID[id]; port != nil {
			out = append(out, port)
		}
	}
	return out
}
