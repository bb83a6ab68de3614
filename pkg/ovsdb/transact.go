package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
)

var (
	// ErrGuard: the transaction's guard did not hold; nothing was written.
	ErrGuard = errors.New("the database is in another controller's epoch")
	// ErrMissed: the transaction was committed, but a row that it was to change was not there.
	ErrMissed = errors.New("a row that the transaction changes has gone")
)

// faults are the server's errors that are the transaction's own fault: sent again it fails again. (RFC 7047
// sections 3.1 and 5.2; ovsdb-server(7).) Others, such as "I/O error" or "not leader", are the server's.
var faults = []string{
	"constraint violation", "referential integrity violation", "syntax error", "domain error", "range error",
	"duplicate uuid", "unknown column", "not allowed",
}

// RefusedError is the server's refusal of a transaction for a fault of its own; nothing of it was written.
type RefusedError struct {
	// Message is the server's own.
	Message string
}

// Error implements error.
func (e *RefusedError) Error() string { return "the database refused the transaction: " + e.Message }

// Request is a transaction that is ready to be sent.
type Request struct {
	params []byte
	// guards is how many operations the guard has; changes says of each operation whether it changes rows that it
	// looks for.
	guards  int
	changes []bool
}

// operation is ovsdb.Operation without its method, which encodes everything twice; that is of use for "select" only.
type operation ovsdb.Operation

// Prepare writes a transaction down that guard begins with.
func Prepare(guard, ops []ovsdb.Operation) (Request, error) {
	r := Request{guards: len(guard), changes: make([]bool, 0, len(guard)+len(ops))}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	fmt.Fprintf(&text, "[%q", nb.DatabaseName)
	for _, list := range [][]ovsdb.Operation{guard, ops} {
		for i := range list {
			text.WriteByte(',')
			if err := encoder.Encode((*operation)(&list[i])); err != nil {
				return r, fmt.Errorf("encode transaction: %w", err)
			}
			r.changes = append(r.changes, list[i].Op == ovsdb.OperationUpdate || list[i].Op == ovsdb.OperationMutate)
		}
	}
	text.WriteByte(']')
	r.params = text.Bytes()
	return r, nil
}

// Transact prepares and commits.
func (s *Session) Transact(ctx context.Context, guard, ops []ovsdb.Operation) error {
	request, err := Prepare(guard, ops)
	if err != nil {
		return err
	}
	return s.Commit(ctx, request)
}

// Commit commits a transaction and returns once the mirror holds the result. The error is ErrGuard, a *RefusedError,
// ErrMissed, or one that leaves open what became of it: then the session is ended, and the next one's mirror will tell.
func (s *Session) Commit(ctx context.Context, r Request) error {
	var outcome error
	err := s.peer.call(ctx, "transact", r.params, func(c *cursor) error {
		outcome = r.read(c)
		return nil
	})
	if err != nil {
		s.Close()
		if errors.Is(err, ErrClosed) {
			return ErrClosed
		}
		return fmt.Errorf("commit transaction: %w", err)
	}
	if refused := new(RefusedError); outcome == nil || errors.Is(outcome, ErrGuard) || errors.Is(outcome, ErrMissed) || errors.As(outcome, &refused) {
		return outcome
	}
	s.Close()
	return fmt.Errorf("commit transaction: %w", outcome)
}

// read reads the results of the operations, in order: null for those that were not tried. One more is the error of the
// transaction as a whole. (RFC 7047 section 4.1.3.)
func (r Request) read(c *cursor) error {
	var first error
	position, missed := -1, false
	c.array(func() {
		position++
		if c.null() {
			return
		}
		var code, details, count string
		c.object(func(name []byte) {
			switch string(name) {
			case "error":
				code = c.str()
			case "details":
				details = c.str()
			case "count":
				count = string(c.word())
			default:
				c.value()
			}
		})
		if code != "" && first == nil {
			first = r.failure(position, code, details)
		}
		missed = missed || count == "0" && position < len(r.changes) && r.changes[position]
	})
	switch {
	case first != nil:
		return first
	case c.err != nil:
		return c.err
	case position+1 < len(r.changes):
		return fmt.Errorf("%d results for %d operations: %w", position+1, len(r.changes), errSyntax)
	case missed:
		return ErrMissed
	}
	return nil
}

// failure is what an operation's error means.
func (r Request) failure(position int, code, details string) error {
	if position < r.guards && strings.Contains(code, "timed out") {
		return ErrGuard
	}
	message := code
	if details != "" {
		message += ": " + details
	}
	if slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(code, f) }) {
		return &RefusedError{Message: message}
	}
	return errors.New(message)
}
