package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// TestReadingOutlivesWhoAsked: the reading of all rows goes on when the time of whoever asked first is over. Whoever asks meanwhile
// is told so, and has nothing read a second time.
func TestReadingOutlivesWhoAsked(t *testing.T) {
	begun, found, ended := make(chan struct{}, 8), make(chan struct{}), make(chan error, 8)
	m := NewMirror(ovsdb.Config{Log: slog.New(slog.DiscardHandler), Find: func(ctx context.Context) ([]string, error) {
		begun <- struct{}{}
		select {
		case <-found:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return nil, errors.New("the record cannot be read")
	}})
	never := func(Northbound) error { t.Error("somebody was given rows"); return nil }
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return m.Use(ctx, never)
	}
	for range 2 {
		if err := ask(); !errors.Is(err, question.ErrReading) {
			t.Errorf("while rows are read, who asks is told %v", err)
		}
	}
	if n := len(begun); n != 1 {
		t.Errorf("rows are read %d times at once", n)
	}
	close(found)
	if err := <-ended; err != nil {
		t.Errorf("the reading ended with who asked: %v", err)
	}
	// What went wrong is told to the next one, who tries again.
	if err := m.Use(t.Context(), never); err == nil || errors.Is(err, question.ErrReading) {
		t.Errorf("who asks after the reading failed is told %v", err)
	}
	if n := len(begun); n != 2 {
		t.Errorf("rows were read %d times", n)
	}
}

// TestCloseEndsAReading: a program that ends does not wait for rows.
func TestCloseEndsAReading(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	m := NewMirror(ovsdb.Config{Log: slog.New(slog.DiscardHandler), Find: func(ctx context.Context) ([]string, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	go func() { _ = m.Use(t.Context(), func(Northbound) error { return nil }) }()
	<-begun
	m.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the reading ended with %v", err)
	}
}
