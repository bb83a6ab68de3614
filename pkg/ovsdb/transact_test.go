package ovsdb

import (
	"errors"
	"testing"
)

func TestResultsOfATransaction(t *testing.T) {
	refused, other := &RefusedError{}, "another"
	request := Request{guards: 1, changes: []bool{false, false, true}}
	for text, want := range map[string]any{
		`[{},{"uuid":["uuid","u"]},{"count":1}]`:                                             nil,
		`[{},{"uuid":["uuid","u"]},{"count":0}]`:                                             ErrMissed,
		`[{"error":"timed out","details":"\"wait\" timed out"},null,null]`:                   ErrGuard,
		`[{},{"error":"constraint violation","details":"no"},null]`:                          refused,
		`[{},{"uuid":["uuid","u"]},{"count":0},{"error":"referential integrity violation"}]`: refused,
		`[{},{"error":"timed out"},null]`:                                                    other,
		`[{},{"uuid":["uuid","u"]},{"count":1},{"error":"not leader"}]`:                      other,
		`[{},{"uuid":["uuid","u"]}]`:                                                         errSyntax,
		`[{},`:                                                                               errSyntax,
		`{}`:                                                                                 errSyntax,
	} {
		got := request.read(&cursor{text: []byte(text)})
		var asRefused *RefusedError
		switch want {
		case nil:
			if got != nil {
				t.Errorf("%s: %v", text, got)
			}
		case refused:
			if !errors.As(got, &asRefused) {
				t.Errorf("%s: %v, want a refusal", text, got)
			}
		case other:
			if got == nil || errors.As(got, &asRefused) || errors.Is(got, ErrGuard) || errors.Is(got, ErrMissed) {
				t.Errorf("%s: %v, want the server's own error", text, got)
			}
		default:
			if !errors.Is(got, want.(error)) {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
		}
	}
}
