package ovsdb

import (
	"encoding/json"
	"errors"
	"strings"
)

// errSyntax: the server sent what is not JSON, or not what the protocol says.
var errSyntax = errors.New("the server's message cannot be read")

// cursor reads JSON from front to back without building anything that its user does not ask for. An update of the
// whole database is some 600 bytes per port; taken through maps of any value it cost more than everything else that
// the controller does. The first error stays: what is read after it is empty.
type cursor struct {
	text []byte
	at   int
	err  error
}

func (c *cursor) fail() {
	if c.err == nil {
		c.err = errSyntax
	}
	c.at = len(c.text)
}

// next is the first byte of what follows, 0 at the end.
func (c *cursor) next() byte {
	for c.at < len(c.text) {
		switch b := c.text[c.at]; b {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) expect(b byte) {
	if c.next() != b {
		c.fail()
		return
	}
	c.at++
}

// object calls field for each name; field reads the value.
func (c *cursor) object(field func(name []byte)) {
	c.elements('{', '}', func() {
		name := c.bytes()
		c.expect(':')
		if c.err == nil {
			field(name)
		}
	})
}

// array calls element for each element; element reads it.
func (c *cursor) array(element func()) { c.elements('[', ']', element) }

func (c *cursor) elements(open, closing byte, element func()) {
	c.expect(open)
	if c.next() == closing {
		c.at++
		return
	}
	for c.err == nil {
		before := c.at
		element()
		if c.at == before {
			c.fail()
			return
		}
		if c.next() == ',' {
			c.at++
			continue
		}
		c.expect(closing)
		return
	}
}

// bytes reads a string. The result is only good until the text is read over, unless the string had an escape.
func (c *cursor) bytes() []byte {
	if c.next() != '"' {
		c.fail()
		return nil
	}
	start := c.at
	c.at++
	for escaped := false; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '"':
			c.at++
			if !escaped {
				return c.text[start+1 : c.at-1]
			}
			var s string
			if json.Unmarshal(c.text[start:c.at], &s) != nil {
				c.fail()
			}
			return []byte(s)
		case '\\':
			escaped = true
			c.at++
		}
	}
	c.fail()
	return nil
}

// str reads a string.
func (c *cursor) str() string { return string(c.bytes()) }

// value reads whatever follows, and is its text.
func (c *cursor) value() []byte {
	c.next()
	start := c.at
	for depth := 0; c.err == nil; {
		switch b := c.next(); b {
		case 0:
			c.fail()
		case '"':
			c.bytes()
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			depth--
			c.at++
		case ',', ':':
			if depth == 0 {
				c.fail()
			}
			c.at++
			continue
		default:
			c.word()
		}
		if depth < 0 {
			c.fail()
		}
		if depth == 0 {
			break
		}
	}
	if c.err != nil {
		return nil
	}
	return c.text[start:c.at]
}

// word reads a number or one of true, false and null.
func (c *cursor) word() []byte {
	c.next()
	start := c.at
	for c.at < len(c.text) && strings.IndexByte(" \t\r\n,:]}[{\"", c.text[c.at]) < 0 {
		c.at++
	}
	if c.at == start {
		c.fail()
	}
	return c.text[start:c.at]
}

// null reads null if it follows.
func (c *cursor) null() bool {
	if c.next() != 'n' {
		return false
	}
	if string(c.word()) != "null" {
		c.fail()
	}
	return true
}
