package main

import (
	"bytes"
	"io"
	"sync"
)

// prefixed writes whole lines, each with a prefix, so that those of several writers to one place can be told apart. They share lines.
type prefixed struct {
	lines  *sync.Mutex
	out    io.Writer
	prefix string
	// begun is a line that has no end yet.
	begun bytes.Buffer
}

// Write keeps what has no line's end yet.
func (p *prefixed) Write(b []byte) (int, error) {
	p.lines.Lock()
	defer p.lines.Unlock()
	p.begun.Write(b)
	for {
		end := bytes.IndexByte(p.begun.Bytes(), '\n')
		if end < 0 {
			return len(b), nil
		}
		line := p.begun.Next(end + 1)
		if len(line) > 1 {
			line = append([]byte(p.prefix), line...)
		}
		if _, err := p.out.Write(line); err != nil {
			return 0, err
		}
	}
}

// end writes a last line that has no end.
func (p *prefixed) end() {
	if p.begun.Len() > 0 {
		_, _ = p.Write([]byte("\n"))
	}
}
