package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/process/daemon"
)

// servePprof serves Go's profiles at address until ctx ends. A profile shows what the process holds in memory, so
// that only this machine may ask.
func servePprof(ctx context.Context, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("--pprof-address: %q is not an address with a port, such as 127.0.0.1:6060", address)
	}
	if !at.Addr().IsLoopback() {
		return fmt.Errorf("--pprof-address: %s is not a loopback address; profiles are for this machine only", at.Addr())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return daemon.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: daemon.HeaderTime}, listener, 0)
}
