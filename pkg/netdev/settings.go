package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/safchain/ethtool"
)

// harden sets what must hold before the pod's end is up. It runs inside the pod's network namespace.
func harden(spec Spec) error {
	settings := []Setting{
		// A neighbour in the Network must not become this pod's router.
		{"ipv6", "accept_ra", "0"},
		// The link-local address too is the pod's alone: OVN sees to it.
		{"ipv6", "accept_dad", "0"},
	}
	if spec.hasIPv6() {
		settings = append(settings, Setting{"ipv6", "disable_ipv6", "0"})
	}
	return Set(spec.Owner.Interface, settings...)
}

// Setting is a value below /proc/sys/net. (ip-sysctl in the kernel's documentation.)
type Setting struct {
	// Protocol is ipv4 or ipv6.
	Protocol   string
	Key, Value string
}

// AllInterfaces stands, as the name of an interface, for all: what is set for it, each one gets.
const AllInterfaces = "all"

// Set sets settings of an interface, or of the namespace as a whole when iface is empty, in the namespace of the calling
// thread. A kernel without IPv6 has none of those, and needs none. What is as it should be is not written: for many
// settings the kernel locks all links of all namespaces, even to change nothing.
func Set(iface string, settings ...Setting) error {
	for _, s := range settings {
		file := filepath.Join("/proc/sys/net", s.Protocol, "conf", iface, s.Key)
		if iface == "" {
			file = filepath.Join("/proc/sys/net", s.Protocol, s.Key)
		}
		if present, err := os.ReadFile(file); err == nil && iface != AllInterfaces && strings.TrimSpace(string(present)) == s.Value {
			continue
		}
		err := os.WriteFile(file, []byte(s.Value), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s of %s: %w", s.Key, iface, err)
		}
	}
	return nil
}

// txChecksums are the features of a veth that leave a checksum to whoever sends the packet out. Every kernel with
// nf_tables has both.
func txChecksums() []string { return []string{"tx-checksum-ip-generic", "tx-checksum-sctp"} }

// DisableTxChecksums has an interface in the namespace of the calling thread fill in its checksums. What
// builds on it (segmentation offload) goes off with it.
func DisableTxChecksums(iface string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool: %w", err)
	}
	defer tool.Close()
	off := map[string]bool{}
	for _, feature := range txChecksums() {
		off[feature] = false
	}
	if err := tool.Change(iface, off); err != nil {
		return fmt.Errorf("turn off checksum offload of %s: %w", iface, err)
	}
	return nil
}
