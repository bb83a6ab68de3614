package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// Set sets settings of an interface, or of the namespace as a whole when iface is empty, in the namespace of the calling
// thread. A kernel without IPv6 has none of those, and needs none.
func Set(iface string, settings ...Setting) error {
	for _, s := range settings {
		file := filepath.Join("/proc/sys/net", s.Protocol, "conf", iface, s.Key)
		if iface == "" {
			file = filepath.Join("/proc/sys/net", s.Protocol, s.Key)
		}
		err := os.WriteFile(file, []byte(s.Value), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s of %s: %w", s.Key, iface, err)
		}
	}
	return nil
}

// txChecksums are the features of a veth that leave a checksum to whoever sends the packet out.
func txChecksums() []string { return []string{"tx-checksum-ip-generic", "tx-checksum-sctp"} }

// DisableTxChecksums has an interface in the namespace of the calling thread fill in its checksums. What
// builds on it (segmentation offload) goes off with it.
func DisableTxChecksums(iface string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool: %w", err)
	}
	defer tool.Close()
	features, err := tool.FeatureNames(iface)
	if err != nil {
		return fmt.Errorf("read features of %s: %w", iface, err)
	}
	off := map[string]bool{}
	for _, feature := range txChecksums() {
		if _, has := features[feature]; has {
			off[feature] = false
		}
	}
	if err := tool.Change(iface, off); err != nil {
		return fmt.Errorf("turn off checksum offload of %s: %w", iface, err)
	}
	return nil
}
