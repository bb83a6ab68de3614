package parts

import (
	"strings"
	"testing"
)

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
