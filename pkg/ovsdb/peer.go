package ovsdb

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// peer speaks JSON-RPC 1.0 over one connection (RFC 7047 section 4). One goroutine reads: answers and notifications
// are handled in the order in which the server sent them.
type peer struct {
	conn net.Conn
	// notified is told of each notification; what it is given is only good until it returns.
	notified func(method string, params []byte) error
	done     chan struct{}

	writing sync.Mutex

	mu    sync.Mutex
	last  uint64
	calls map[uint64]*call
	err   error
}

// call waits for its answer.
type call struct {
	// read reads the answer, in the reading goroutine.
	read func(*cursor) error
	err  error
	done chan struct{}
}

func newPeer(conn net.Conn, notified func(string, []byte) error) *peer {
	return &peer{conn: conn, notified: notified, done: make(chan struct{}), calls: map[uint64]*call{}}
}

// run reads until the connection ends.
func (p *peer) run() {
	err := p.readAll()
	_ = p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	for _, c := range p.calls {
		c.err = ErrClosed
		close(c.done)
	}
	p.calls = nil
	close(p.done)
}

func (p *peer) readAll() error {
	f := frames{from: bufio.NewReaderSize(p.conn, 1<<16)}
	for {
		text, err := f.next()
		if err != nil {
			return err
		}
		if err := p.handle(text); err != nil {
			return err
		}
	}
}

// handle takes one message: a request has a method, a notification no id besides, an answer only an id.
func (p *peer) handle(text []byte) error {
	var id, method, params, result, failure []byte
	c := &cursor{text: text}
	c.object(func(name []byte) {
		switch string(name) {
		case "id":
			id = c.value()
		case "method":
			method = c.bytes()
		case "params":
			params = c.value()
		case "result":
			result = c.value()
		case "error":
			failure = c.value()
		default:
			c.value()
		}
	})
	switch {
	case c.err != nil:
		return c.err
	case method == nil:
		return p.answered(id, result, failure)
	case string(method) == "echo":
		return p.send(fmt.Appendf(nil, `{"id":%s,"result":%s,"error":null}`, id, params))
	}
	return p.notified(string(method), params)
}

func (p *peer) answered(id, result, failure []byte) error {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return nil // it answers nothing of ours
	}
	p.mu.Lock()
	c := p.calls[n]
	delete(p.calls, n)
	p.mu.Unlock()
	if c == nil {
		return nil
	}
	defer close(c.done)
	if len(failure) > 0 && string(failure) != "null" {
		c.err = fmt.Errorf("the server answers with an error: %s", failure)
		return nil
	}
	answer := &cursor{text: result}
	if c.err = c.read(answer); c.err == nil {
		c.err = answer.err
	}
	return nil
}

// call sends a request, whose parameters are params, and has read read the answer before anything that comes after it.
func (p *peer) call(ctx context.Context, method string, params []byte, read func(*cursor) error) error {
	c := &call{read: read, done: make(chan struct{})}
	p.mu.Lock()
	if p.calls == nil {
		p.mu.Unlock()
		return ErrClosed
	}
	p.last++
	id := p.last
	p.calls[id] = c
	p.mu.Unlock()
	if err := p.send(fmt.Appendf(nil, `{"id":%d,"method":%q,"params":`, id, method), params, []byte("}")); err != nil {
		_ = p.conn.Close()
		<-c.done
		return ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	_, waits := p.calls[id]
	delete(p.calls, id)
	p.mu.Unlock()
	if waits {
		return ctx.Err()
	}
	// It is being read at this moment.
	<-c.done
	return c.err
}

func (p *peer) send(parts ...[]byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	all := net.Buffers(parts)
	_, err := all.WriteTo(p.conn)
	return err
}

// frames cuts a stream into messages: each is one JSON object.
type frames struct {
	from *bufio.Reader
	text bytes.Buffer
}

// keepBuffer is the size, in bytes, from which a message's buffer is given back: that of the first load is as large as
// the database.
const keepBuffer = 1 << 20

// next is the next message; it is good until the one after is asked for.
func (f *frames) next() ([]byte, error) {
	if f.text.Cap() > keepBuffer {
		f.text = bytes.Buffer{}
	}
	f.text.Reset()
	depth, quoted, escaped := 0, false, false
	for {
		chunk, err := f.from.Peek(max(f.from.Buffered(), 1))
		if err != nil {
			if f.text.Len() > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		for i, b := range chunk {
			switch {
			case escaped:
				escaped = false
			case quoted:
				escaped, quoted = b == '\\', b != '"'
			case b == '"':
				quoted = true
			case b == '{' || b == '[':
				depth++
			case b == '}' || b == ']':
				if depth--; depth <= 0 {
					f.text.Write(chunk[:i+1])
					_, _ = f.from.Discard(i + 1)
					return f.text.Bytes(), nil
				}
			}
		}
		f.text.Write(chunk)
		_, _ = f.from.Discard(len(chunk))
	}
}
