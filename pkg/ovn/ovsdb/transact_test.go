package ovsdb

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

func TestOutcomeOfATransaction(t *testing.T) {
	var refused *RefusedError
	isRefused := func(err error) bool { return errors.As(err, &refused) }
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	other := func(err error) bool {
		return err != nil && !isRefused(err) && !errors.Is(err, ErrGuard) && !errors.Is(err, ErrMissed)
	}
	ops := []ovsdb.Operation{{Op: ovsdb.OperationInsert}, {Op: ovsdb.OperationMutate}}
	for text, want := range map[string]func(error) bool{
		`[{},{"uuid":["uuid","u"]},{"count":1}]`:                                             is(nil),
		`[{},{"uuid":["uuid","u"]},{"count":0}]`:                                             is(ErrMissed),
		`[{"error":"timed out","details":"\"wait\" timed out"},null,null]`:                   is(ErrGuard),
		`[{},{"error":"constraint violation","details":"no"},null]`:                          isRefused,
		`[{},{"uuid":["uuid","u"]},{"count":0},{"error":"referential integrity violation"}]`: isRefused,
		`[{},{"error":"timed out"},null]`:                                                    other,
		`[{},{"uuid":["uuid","u"]},{"count":1},{"error":"not leader"}]`:                      other,
		`[{},{"uuid":["uuid","u"]}]`:                                                         other,
		`[]`:                                                                                 other,
	} {
		var results []ovsdb.OperationResult
		if err := json.Unmarshal([]byte(text), &results); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := outcome(results, 1, ops); !want(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
