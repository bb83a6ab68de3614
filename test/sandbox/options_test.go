package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptionsDefaults(t *testing.T) {
	opts, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Name: DefaultName, Nodes: DefaultNodes, Cache: DefaultCache, State: DefaultState, Overlay: OverlayHA}
	if opts != want {
		t.Errorf("defaults are %+v, want %+v", opts, want)
	}
}

func TestOptionsPathsBecomeAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	opts, err := Options{State: "s", Bin: "b"}.withDefaults()
	if err == nil && (!filepath.IsAbs(opts.State) || !filepath.IsAbs(opts.Bin)) {
		t.Errorf("paths are %q and %q, want absolute ones", opts.State, opts.Bin)
	}
	if err != nil && !strings.Contains(err.Error(), "unix sockets") { // a long temporary directory may be refused
		t.Fatal(err)
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"name with a dash":  {Options{Name: "a-b"}, "name"},
		"name too long":     {Options{Name: "abcdefghijklm"}, "name"},
		"no nodes":          {Options{Nodes: -1}, "nodes"},
		"unknown overlay":   {Options{Overlay: "three"}, "overlay"},
		"too many nodes":    {Options{Nodes: maxNodes + 1}, "nodes"},
		"state path length": {Options{State: "/" + strings.Repeat("x", maxStatePath)}, "unix sockets"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.opts.withDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one about %q", err, c.want)
			}
		})
	}
}

func TestSourceAround(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	nested := filepath.Join(top, "nested")
	for _, dir := range []string{deep, nested} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(top, "go.mod"), "module "+Module+"\n")
	writeFile(t, filepath.Join(nested, "go.mod"), "module "+Module+"/nested\n")
	for dir, want := range map[string]string{deep: top, nested: top, filepath.Dir(top): ""} {
		if got := sourceAround(dir); got != want {
			t.Errorf("source around %s is %q, want %q", dir, got, want)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeExecutable(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}
