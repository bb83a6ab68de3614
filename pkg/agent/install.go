package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// pluginName is the name by which runtimes look for the plugin's program.
const pluginName = "atoll-cni"

// confName is the network configuration's file. Runtimes take the first of a directory.
const confName = "10-atoll.conflist"

// portmapName is the field's plugin for hostPort (https://www.cni.dev/plugins/current/meta/portmap/).
const portmapName = "portmap"

// installPlugin copies the plugin's program into the runtime's directory.
func installPlugin(source, dir string) error {
	program, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("read plugin: %w", err)
	}
	return replaceFile(filepath.Join(dir, pluginName), program, 0o755)
}

// writeConf tells the runtime that pods can be started: until the file is there, the node is not Ready. It
// stays when the agent stops, so that a restart does not take the node away; the plugin then waits, and says
// try again. A portmap that is beside our plugin comes after it: pods' hostPorts lead to the addresses that we report.
func writeConf(dir, binDir, socket string) error {
	plugins := []any{map[string]any{"type": pluginName, "socket": socket}}
	if _, err := os.Stat(filepath.Join(binDir, portmapName)); err == nil {
		plugins = append(plugins, map[string]any{
			"type": portmapName, "backend": "nftables", "capabilities": map[string]bool{"portMappings": true},
		})
	}
	conf := map[string]any{
		// Runtimes before CNI 1.1 look at the first only.
		"cniVersion":  "1.0.0",
		"cniVersions": []string{"1.0.0", "1.1.0"},
		"name":        "atoll",
		"plugins":     plugins,
	}
	text, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return fmt.Errorf("encode network configuration: %w", err)
	}
	return replaceFile(filepath.Join(dir, confName), append(text, '\n'), 0o644)
}

// replaceFile puts a file in place as a whole, and not at all when it is there already: runtimes read their
// configuration again whenever it changes.
func replaceFile(name string, content []byte, mode fs.FileMode) error {
	if present, err := os.ReadFile(name); err == nil && bytes.Equal(present, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	draft, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*.draft")
	if err != nil {
		return fmt.Errorf("make draft: %w", err)
	}
	_, err = draft.Write(content)
	err = errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(draft.Name()))
	}
	return nil
}
