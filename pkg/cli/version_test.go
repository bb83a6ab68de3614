package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/process/build"
)

// TestVersion: the command says what the flag says, under the name that the program was called by.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"atoll", pluginName} {
		said := func(arg string) string {
			var out bytes.Buffer
			root := Command(program)
			root.SetOut(&out)
			root.SetArgs([]string{arg})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		command, flag := said("version"), said("--version")
		if command != flag || !strings.HasSuffix(command, " version "+build.Version()+"\n") {
			t.Errorf("%s: the command says %q, the flag %q", program, command, flag)
		}
	}
}
