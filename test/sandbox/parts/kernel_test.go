package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoomForRegisters(t *testing.T) {
	tree := t.TempDir()
	file := filepath.Join(tree, "arch/x86/um/user-offsets.c")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, before, after string
		fails               bool
	}{
		{"as it is", "a\n\t" + narrow + "\nb\n", "a\n\t" + mended + "\nb\n", false},
		{"a later kernel", "DEFINE(HOST_FP_SIZE, xsave_size);\n", "DEFINE(HOST_FP_SIZE, xsave_size);\n", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(test.before), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := roomForRegisters(tree); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != test.after {
				t.Errorf("%q, want %q: %v", text, test.after, err)
			}
		})
	}
}

func TestRefusedOptions(t *testing.T) {
	const wanted = `# what tests need
CONFIG_TAKEN=y
CONFIG_UNKNOWN=y
CONFIG_OFF=n
CONFIG_STILL_ON=n
CONFIG_SIZE=14
`
	const got = `# CONFIG_OFF is not set
CONFIG_TAKEN=y
CONFIG_STILL_ON=y
CONFIG_SIZE=17
`
	if refused := strings.Join(refusedOptions(wanted, got), " "); refused != "CONFIG_UNKNOWN=y CONFIG_STILL_ON=n CONFIG_SIZE=14" {
		t.Errorf("refused are %q", refused)
	}
}

func TestDependency(t *testing.T) {
	const depends = `linux-source
  Depends: bash
  Depends: linux-source-6.12
`
	if got := dependency(depends, "linux-source-"); got != "linux-source-6.12" {
		t.Errorf("dependency is %q", got)
	}
	if got := dependency("linux-source\n  Suggests: linux-source-6.12\n", "linux-source-"); got != "" {
		t.Errorf("a suggestion is taken for a dependency: %q", got)
	}
}
