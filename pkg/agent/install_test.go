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
	if err := writeConf(dir, "/run/atoll/cni.sock"); err != nil {
		t.Fatal(err)
	}
	list, err := libcni.ConfListFromFile(filepath.Join(dir, confName))
	if err != nil {
		t.Fatal(err)
	}
	if list.Name != "atoll" || list.CNIVersion != "1.1.0" || list.Plugins[0].Network.Type != pluginName {
		t.Errorf("read %+v", list)
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
