package question

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Error says why a question is not answered: it is who asks that has to ask something else.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *Error) Unwrap() error { return e.Err }

// MayAsk reports whether who asks may ask about pods of a namespace. Its error is that nobody knows. Nil: about all of them, and
// about what belongs to nobody.
type MayAsk func(namespace string) (bool, error)

// ParseQuestion reads a question as it is posted.
func ParseQuestion(spec api.ExplanationSpec) (Question, error) {
	q := Question{Protocol: model.Protocol(spec.Protocol), Port: spec.Port, Network: spec.Network}
	var err error
	if q.From, err = ParsePlace(spec.From); err != nil {
		return q, err
	}
	if q.To, err = ParsePlace(spec.To); err != nil {
		return q, err
	}
	return q, q.Check()
}

// AmbiguousError says that an address is that of several.
type AmbiguousError struct {
	Address netip.Addr
	// Holders are in words, sorted.
	Holders []string
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s is the address of %s. Next: say which Network with --network, or name the pod", e.Address,
		strings.Join(e.Holders, ", and of "))
}

// AbsentError is that of an object that is not there.
type AbsentError struct{ Object string }

// Error says what is not there.
func (e *AbsentError) Error() string { return e.Object + " does not exist" }

// ErrReading says that OVN's rows are being read.
var ErrReading = errors.New("OVN's northbound database has many rows, which are still being read; ask again in a moment")

// ErrNotRead says that who answers has only just begun.
var ErrNotRead = errors.New("the cluster's objects have not been read yet; ask again in a moment")
