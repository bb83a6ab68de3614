package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// runOwn prints what this pod's programs are told of its addresses.
func runOwn(ctx context.Context, _ []string) error {
	command, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return fmt.Errorf("read the first process's command: %w", err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return fmt.Errorf("read hosts file: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	names, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return fmt.Errorf("look up %s: %w", name, err)
	}
	return json.NewEncoder(os.Stdout).Encode(wire.Own{
		Command:     strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00"),
		Environment: os.Environ(),
		Hosts:       string(hosts),
		Names:       names,
	})
}
