package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxMessage bounds what a client may send in one message, in bytes, give or take what was read ahead. Decoded it may take twenty
// times as much.
const maxMessage = 256 << 10

// Message is one of JSON-RPC 1.0: a request, a notification or an answer.
type Message map[string]any

// ErrNoMessage is the error of what is no message of JSON-RPC.
var ErrNoMessage = errors.New("it is no message of JSON-RPC")

// Request is what a message asks for. It is an error if it asks for nothing.
func (m Message) Request() (method string, params []any, err error) {
	method, isText := m["method"].(string)
	params, isList := m["params"].([]any)
	if !isText || !isList {
		return "", nil, ErrNoMessage
	}
	return method, params, nil
}

// Printable is a name as it may stand in a message.
func Printable(name string) string {
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.ToValidUTF8(name, "?")
}

// Messages judges a client who speaks JSON-RPC. judge gives the message to send on, or the answer to give in its place; it is an
// error if it cannot be understood. No message goes on as it came: each is read, judged, and written anew from what was judged,
// so that the server and we cannot understand it differently.
func Messages(judge func(in Message) (on, answer Message, err error)) Judge {
	return func(client io.Reader, server, answers io.Writer) (refused int, err error) {
		bounded := &io.LimitedReader{R: client}
		messages := json.NewDecoder(bounded)
		messages.UseNumber()
		for {
			bounded.N = maxMessage
			var in Message
			switch err := messages.Decode(&in); {
			case err != nil && bounded.N == 0:
				return refused, fmt.Errorf("a message of more than %d bytes", maxMessage)
			case errors.Is(err, io.EOF):
				return refused, nil
			case err != nil:
				return refused, fmt.Errorf("read a message: %w", err)
			}
			on, answer, err := judge(in)
			if err != nil {
				return refused, err
			}
			to, text := server, on
			if on == nil {
				refused++
				if answer["id"] == nil {
					continue // Nobody waits for an answer to a notification.
				}
				to, text = answers, answer
			}
			if err := writeMessage(to, text); err != nil {
				return refused, err
			}
		}
	}
}

// writeMessage writes a message at once.
func writeMessage(to io.Writer, m Message) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	_, err := to.Write(text.Bytes())
	return err
}

// JSON follows a server that speaks JSON-RPC.
type JSON struct {
	// depth is in how many braces the server's words are by now; in a text they do not count.
	depth           int
	quoted, escaped bool
}

// Follow implements Follower.
func (j *JSON) Follow(p []byte) (over int, err error) {
	for i, c := range p {
		switch {
		case j.escaped:
			j.escaped = false
		case j.quoted:
			j.escaped, j.quoted = c == '\\', c != '"'
		case c == '"':
			j.quoted = true
		case c == '{':
			j.depth++
		case c == '}':
			if j.depth--; j.depth == 0 {
				over = i + 1
			}
		}
	}
	return over, nil
}

// Between implements Follower.
func (j *JSON) Between() bool { return j.depth == 0 }
