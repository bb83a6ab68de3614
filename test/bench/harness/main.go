package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Main runs a program that measures, and ends the process with status 1 when it fails. The context ends with SIGINT and SIGTERM.
func Main(name string, run func(context.Context) error) {
	// client-go tells of each request that waited for its answer; here that is the point.
	klog.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Results are what a run has measured.
type Results interface {
	// Print writes a table for people.
	Print(to io.Writer) error
}

// Tell prints results, and writes them as JSON to a file unless its name is empty.
func Tell(r Results, file string) error {
	err := r.Print(os.Stdout)
	if file != "" {
		err = errors.Join(err, Write(file, r))
	}
	return err
}
