//go:build integration

package parts

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/test/wait"
)

// TestInstallWaitsForAnother: while somebody else installs packages, apt waits until they are done. Control: without the option
// it fails at once.
func TestInstallWaitsForAnother(t *testing.T) {
	apt, err := newAptRoot(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(apt.dir, "lock-frontend"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	hold := func(kind int16) {
		t.Helper()
		if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	hold(unix.F_WRLCK)
	argv := installCommand(apt.options, nil)
	at := slices.IndexFunc(argv, func(word string) bool { return strings.HasPrefix(word, "DPkg::Lock::Timeout=") })
	without := slices.Delete(slices.Clone(argv), at-1, at+1)
	if _, err := command(t.Context(), "/", []string{"LC_ALL=C"}, without...); err == nil ||
		!strings.Contains(err.Error(), "Could not get lock") {
		t.Errorf("control: %v", err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	install := exec.CommandContext(wait.Context(t, wait.Patience), argv[0], argv[1:]...)
	install.Env = append(os.Environ(), "LC_ALL=C")
	install.Stdout, install.Stderr = in, in
	if err := install.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	text := bufio.NewReader(out)
	said, err := text.ReadString(':')
	if err != nil || !strings.Contains(said, "Waiting for cache lock") {
		t.Errorf("it says %q: %v", said, err)
	}
	hold(unix.F_UNLCK)
	rest, err := io.ReadAll(text)
	if err := install.Wait(); err != nil {
		t.Errorf("%v: %s%s", err, said, rest)
	}
	if err != nil {
		t.Error(err)
	}
}
