package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// ErrGuard: the transaction's guard did not hold; nothing was written.
var ErrGuard = errors.New("the database is in another controller's epoch")

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

// Transact commits guard and ops as one transaction and returns once the mirror holds the result. The error
// is ErrGuard, a *RefusedError, or one that leaves open what became of it: then the session is ended, and the
// next one's mirror will tell.
func (s *Session) Transact(ctx context.Context, guard []ovsdb.Operation, ops []ovsdb.Operation) error {
	all := append(append(make([]ovsdb.Operation, 0, len(guard)+len(ops)), guard...), ops...)
	results, err := s.client.Transact(ctx, all...)
	if err != nil {
		s.Close()
		if errors.Is(err, client.ErrNotConnected) {
			return ErrClosed
		}
		return fmt.Errorf("commit transaction: %w", err)
	}
	for i, r := range results {
		if r.Error == "" {
			continue
		}
		if i < len(guard) && strings.Contains(r.Error, "timed out") {
			return ErrGuard
		}
		message := r.Error
		if r.Details != "" {
			message += ": " + r.Details
		}
		if slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(r.Error, f) }) {
			return &RefusedError{Message: message}
		}
		s.Close()
		return fmt.Errorf("commit transaction: %s", message)
	}
	return nil
}
