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

// Transact commits guard and ops as one transaction and returns once the mirror holds the result. The error
// is ErrGuard, a *RefusedError, ErrMissed, or one that leaves open what became of it: then the session is ended, and
// the next one's mirror will tell.
func (s *Session) Transact(ctx context.Context, guard, ops []ovsdb.Operation) error {
	ctx, cancel := s.until(ctx)
	defer cancel()
	results, err := s.client.Transact(ctx, slices.Concat(guard, ops)...)
	s.sets.renew()
	if err != nil {
		return s.lost(err)
	}
	err = outcome(results, len(guard), ops)
	if refused := new(RefusedError); err == nil || errors.Is(err, ErrGuard) || errors.Is(err, ErrMissed) || errors.As(err, &refused) {
		return err
	}
	s.Close()
	return fmt.Errorf("commit transaction: %w", err)
}

// lost ends the session, since nobody knows what became of a transaction.
func (s *Session) lost(err error) error {
	select {
	case <-s.done:
		return ErrClosed
	default:
	}
	s.Close()
	if errors.Is(err, client.ErrNotConnected) {
		return ErrClosed
	}
	return fmt.Errorf("commit transaction: %w", err)
}

// outcome is what the results of the operations mean: first those of the guard, then those of ops. Operations after
// one that failed have empty ones; one more is the error of the transaction as a whole. (RFC 7047 section 4.1.3.)
func outcome(results []ovsdb.OperationResult, guards int, ops []ovsdb.Operation) error {
	for i, r := range results {
		if r.Error == "" {
			continue
		}
		if i < guards && strings.Contains(r.Error, "timed out") {
			return ErrGuard
		}
		message := r.Error
		if r.Details != "" {
			message += ": " + r.Details
		}
		if slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(r.Error, f) }) {
			return &RefusedError{Message: message}
		}
		return errors.New(message)
	}
	if len(results) < guards+len(ops) {
		return fmt.Errorf("%d results for %d operations", len(results), guards+len(ops))
	}
	for i, op := range ops {
		changes := op.Op == ovsdb.OperationUpdate || op.Op == ovsdb.OperationMutate
		if changes && results[guards+i].Count == 0 {
			return ErrMissed
		}
	}
	return nil
}
