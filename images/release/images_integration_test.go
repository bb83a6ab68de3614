//go:build integration

package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sbom"
)

var twice = flag.Bool("twice", false, "build all platforms of this commit, in two directories, and compare")

// TestImages builds the images of this source, and starts each program of theirs for this machine's processor, with nothing but
// the image around it.
func TestImages(t *testing.T) {
	o := options{source: root, out: t.TempDir(), cache: sandbox.DefaultCache, own: !*twice}
	if *twice {
		o.source = clone(t, root)
	}
	all, err := buildAll(t.Context(), o, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if _, wrong := sbom.Check(read(t, b.document)); len(wrong) > 0 {
			t.Errorf("%s: %s", b.document, strings.Join(wrong, "\n"))
		}
		t.Attr(b.name, b.version+" "+b.digest)
		tree := unpacked(t, b.archive)
		for _, c := range commands[b.name] {
			c.run(t, tree)
		}
		if b.name == "atoll" && b.version != unknown {
			for _, program := range []string{"atoll", "atoll-agent", "atoll-cni", "atoll-controller", "atoll-dns", "atoll-inspect"} {
				command{65532, program + " version " + b.version + "\n", "", []string{"/usr/local/bin/" + program, "--version"}}.run(t, tree)
			}
		}
	}
	if *twice {
		again(t, o.source, all)
	}
}

// again builds the images in another clone by the commands of docs/install.md, pushes them to a registry on loopback by those,
// and compares.
func again(t *testing.T, cloned string, first []built) {
	t.Helper()
	source := clone(t, cloned)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	page := string(read(t, filepath.Join(source, "docs/install.md")))
	_, section, _ := strings.Cut(page, "\n## Images\n")
	section, _, _ = strings.Cut(section, "\n## ")
	ran := 0
	for line := range strings.Lines(section) {
		command, found := strings.CutPrefix(line, "    make ")
		if !found {
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "make", strings.Fields(strings.ReplaceAll(command, "registry.example.com", address))...)
		cmd.Dir = source
		out, err := cmd.CombinedOutput()
		t.Logf("make %s%s", command, out)
		if err != nil {
			t.Fatal(err)
		}
	}
	if ran != 2 {
		t.Errorf("the page has %d commands of make, not two", ran)
	}
	for _, b := range first {
		for _, file := range []string{b.archive, b.document} {
			if !bytes.Equal(read(t, file), read(t, filepath.Join(source, "bin/images", filepath.Base(file)))) {
				t.Errorf("%s: built again, it is another", filepath.Base(file))
			}
		}
		for _, tag := range []string{b.tag(), "v0.1"} {
			ref, err := name.ParseReference(address + "/atoll/" + b.name + ":" + tag)
			if err != nil {
				t.Fatal(err)
			}
			pulled, err := remote.Head(ref)
			if err != nil || pulled.Digest.String() != b.digest {
				t.Errorf("%s: the registry has %+v, not %s (%v)", ref, pulled, b.digest, err)
			}
		}
	}
}

// command is a program of an image, who runs it, and something that it prints.
type command struct {
	user  uint32
	want  string
	input string
	argv  []string
}

var commands = map[string][]command{
	"atoll": {
		{65532, "check", "", []string{"/usr/local/bin/atoll", "--help"}},
		{65532, "--nb-address", "", []string{"/usr/local/bin/atoll-controller", "--help"}},
		{65532, "--inspect-address", "", []string{"/usr/local/bin/atoll-inspect", "--help"}},
		{65532, "--node-name", "", []string{"/usr/local/bin/atoll-agent", "--help"}},
		{65532, "--probe-socket", "", []string{"/usr/local/bin/atoll-dns", "--help"}},
		{65532, "supportedVersions", `{"cniVersion":"1.0.0"}`, []string{"/usr/local/bin/atoll-cni"}},
		{65532, "nftables v", "", []string{"/usr/sbin/nft", "--version"}},
	},
	"ovn": {
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/sbin/ovsdb-server", "--version"}},
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/sbin/ovs-vswitchd", "--version"}},
		{0, "ovn-northd 25.03", "", []string{"/usr/bin/ovn-northd", "--version"}},
		{0, "ovn-controller 25.03", "", []string{"/usr/bin/ovn-controller", "--version"}},
		{0, "ovn-nbctl 25.03", "", []string{"/usr/bin/ovn-nbctl", "--version"}},
		{0, "ovn-sbctl 25.03", "", []string{"/usr/bin/ovn-sbctl", "--version"}},
		{0, "ovn-trace 25.03", "", []string{"/usr/bin/ovn-trace", "--version"}},
		{0, "ovn-appctl 25.03", "", []string{"/usr/bin/ovn-appctl", "--version"}},
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/bin/ovs-vsctl", "--version"}},
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/bin/ovs-ofctl", "--version"}},
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/bin/ovs-appctl", "--version"}},
		{0, "(Open vSwitch) 3.5", "", []string{"/usr/bin/ovsdb-client", "--version"}},
		// The schemas are where the manifests look for them, and the shell does what they ask of it.
		{
			0, "OVN_Northbound", "", []string{
				"/usr/bin/sh", "-c", "cd /tmp && ovsdb-tool create nb.db /usr/share/ovn/ovn-nb.ovsschema && ovsdb-tool db-name nb.db",
			},
		},
		{
			0, "OVN_Southbound", "", []string{
				"/usr/bin/sh", "-c", "cd /tmp && ovsdb-tool create sb.db /usr/share/ovn/ovn-sb.ovsschema && ovsdb-tool db-name sb.db",
			},
		},
		{
			0, "Open_vSwitch", "", []string{
				"/usr/bin/sh", "-c", "cd /tmp && ovsdb-tool create vs.db /usr/share/openvswitch/vswitch.ovsschema && ovsdb-tool db-name vs.db",
			},
		},
		{0, "nb.db.old", "", []string{"/usr/bin/sh", "-c", "cd /tmp && mkdir old && mv nb.db old/nb.db.old && ls old"}},
	},
}

func (c command) run(t *testing.T, tree string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{searchPath, "CNI_COMMAND=VERSION"}, strings.NewReader(c.input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: tree, Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), c.want) {
		t.Errorf("%s: %v, printed without %q:\n%s", strings.Join(c.argv, " "), err, c.want, out)
	}
}

// unpacked is the file system of an archive's image for this machine.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	index, _, err := image.ReadArchive(archive, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(forArchitecture(t, index, runtime.GOARCH))
	tree := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-p", "-C", tree)
	cmd.Stdin = files
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, files.Close()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Container runtimes give each container these.
	for minor, name := range map[uint32]string{3: "null", 9: "urandom"} {
		if err := unix.Mknod(filepath.Join(tree, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			t.Fatal(err)
		}
	}
	// t.TempDir is its owner's only, and the programs run as others.
	for dir := tree; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// clone is the commit of a source tree in a directory of its own.
func clone(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "atoll")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--no-hardlinks", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	return dir
}
