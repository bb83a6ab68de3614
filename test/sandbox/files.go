package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
)

// makeState makes the state directory with the record in it: from then on everything that follows can be
// found and removed.
func makeState(r record) error {
	entries, err := os.ReadDir(r.Options.State)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("make state directory: %s is not empty and holds no sandbox; name another with --state", r.Options.State)
	}
	if err := os.MkdirAll(r.Options.State, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return r.save()
}

// makeFiles writes everything that the daemons read: configurations and certificates.
func makeFiles(r record) error {
	l := r.layout()
	dirs := []string{l.logs(), l.in(Central, "etcd"), l.place(Outside)}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		for _, dir := range sortedKeys(nodeDirs) {
			dirs = append(dirs, l.in(n.name, dir))
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := makeIdentities(r); err != nil {
		return err
	}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		kubelet, err := kubeletConfig(r, n)
		if err != nil {
			return err
		}
		proxy, err := proxyConfig(r, n)
		if err != nil {
			return err
		}
		files := map[string][]byte{
			"kubelet.yaml":    kubelet,
			"kube-proxy.yaml": proxy,
			"containerd.toml": containerdConfig(r),
		}
		for name, content := range files {
			if err := os.WriteFile(l.in(n.name, name), content, 0o644); err != nil {
				return fmt.Errorf("write configuration: %w", err)
			}
		}
	}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		if err := copyPrograms(r.Parts.CNI, l.in(n.name, "cni-bin")); err != nil {
			return err
		}
	}
	egress, err := egressConfig(l)
	if err == nil {
		err = os.WriteFile(l.in(Central, "egress.yaml"), egress, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	for name, content := range outsideFiles(r) {
		if err := os.WriteFile(l.in(Outside, name), content, 0o644); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

// copyPrograms copies the files of a directory into another.
func copyPrograms(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("list programs: %w", err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, entry.Name()), content, 0o755)
		}
		if err != nil {
			return fmt.Errorf("copy program: %w", err)
		}
	}
	return nil
}
