package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
)

func TestConfIsReadByTheReferenceLibrary(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "net.d")
	bin := t.TempDir()
	read := func() *libcni.NetworkConfigList {
		t.Helper()
		if err := writeConf(dir, bin, "/run/atoll/cni.sock"); err != nil {
			t.Fatal(err)
		}
		list, err := libcni.ConfListFromFile(filepath.Join(dir, confName))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	list := read()
	if list.Name != "atoll" || list.CNIVersion != "1.1.0" || len(list.Plugins) != 1 || list.Plugins[0].Network.Type != pluginName {
		t.Errorf("read %+v", list)
	}
	if err := os.WriteFile(filepath.Join(bin, portmapName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list = read()
	if len(list.Plugins) != 2 || list.Plugins[1].Network.Type != portmapName || !list.Plugins[1].Network.Capabilities["portMappings"] {
		t.Errorf("with portmap at hand, read %+v", list)
	}
}

func TestFilesAreReplacedWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	write := func(content string) os.FileInfo {
		t.Helper()
		if err := replaceFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write("one")
	if again := write("one"); !os.SameFile(first, again) {
		t.Error("the same content was written again")
	}
	second := write("two")
	if os.SameFile(first, second) || second.Mode().Perm() != 0o755 {
		t.Errorf("not replaced: mode %v", second.Mode())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v (error %v)", entries, err)
	}
}
