package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/safchain/ethtool"
)

// harden sets what must hold before the pod's end is up. It runs inside the pod's network namespace.
func harden(spec Spec) error {
	settings := []struct{ key, value string }{
		// A neighbour in the Network must not become this pod's router.
		{"accept_ra", "0"},
		// The link-local address too is the pod's alone: OVN sees to it.
		{"accept_dad", "0"},
	}
	if spec.hasIPv6() {
		settings = append(settings, struct{ key, value string }{"disable_ipv6", "0"})
	}
	for _, s := range settings {
		if err := setSysctl("ipv6", spec.Owner.Interface, s.key, s.value); err != nil {
			return err
		}
	}
	return nil
}

// setSysctl sets a setting of an interface for a protocol (ipv4, ipv6) in the namespace of the calling thread. A
// kernel without IPv6 has none, and needs none.
func setSysctl(protocol, iface, key, value string) error {
	file := fmt.Sprintf("/proc/sys/net/%s/conf/%s/%s", protocol, iface, key)
	err := os.WriteFile(file, []byte(value), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", key, iface, err)
	}
	return nil
}

// txChecksums are the features of a veth that leave a checksum to whoever sends the packet out.
func txChecksums() []string { return []string{"tx-checksum-ip-generic", "tx-checksum-sctp"} }

// disableTxChecksums has an interface in the namespace of the calling thread fill in its checksums. What
// builds on it (segmentation offload) goes off with it.
func disableTxChecksums(iface string) error {
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
