package parts

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// OVN says where the programs and schemas of OVN and Open vSwitch are.
type OVN struct {
	// Bin has ovsdb-server, ovs-vswitchd, ovn-northd, ovn-controller and the command line tools.
	Bin string
	// The schemas of the three databases.
	SwitchSchema, NorthboundSchema, SouthboundSchema string
}

// oldest is the first OVN that Atoll works with.
const oldest = "24.03"

// fallback is the Debian suite that has OVN when the machine's own is too old. Its packages are unpacked in a
// directory of their own with their own C library: adding the suite to the machine would replace half of it.
const fallback = "trixie"

const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

var ovnPackages = []string{"openvswitch-common", "openvswitch-switch", "ovn-common", "ovn-central", "ovn-host"}

// ovn finds OVN: named by the user, installed, in the cache, or to be had from the machine's package sources
// or the fallback suite.
func (g gatherer) ovn(ctx context.Context) (OVN, error) {
	if g.need.OVNPrefix != "" {
		return locateOVN(g.need.OVNPrefix)
	}
	if installed, err := locateOVN("/"); err == nil && g.newEnough(ctx, installed) {
		return installed, nil
	}
	store := filepath.Join(g.need.Cache, "ovn")
	cached, err := filepath.Glob(filepath.Join(store, "[a-z]*-*"))
	if err != nil {
		return OVN{}, fmt.Errorf("list cache: %w", err)
	}
	if len(cached) > 0 {
		return locateOVN(cached[len(cached)-1]) // the newest
	}
	return g.fetchOVN(ctx, store)
}

// newEnough asks an OVN that is installed for its version.
func (g gatherer) newEnough(ctx context.Context, o OVN) bool {
	printed, err := command(ctx, "/", nil, filepath.Join(o.Bin, "ovn-northd"), "--version")
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(printed, "\n") // ovn-northd 25.03.0
	return atLeast(first[strings.LastIndex(first, " ")+1:], oldest)
}

// atLeast compares two versions of OVN, which begin with year and month.
func atLeast(version, bound string) bool {
	year := func(v string) string { return v[:min(len(v), len(bound))] }
	return len(version) >= len(bound) && version[0] >= '0' && version[0] <= '9' && year(version) >= bound
}

// locateOVN finds programs and schemas below a prefix: / for installed packages, or what fetchOVN made.
func locateOVN(prefix string) (OVN, error) {
	o := OVN{
		Bin:              filepath.Join(prefix, "bin"),
		SwitchSchema:     filepath.Join(prefix, "usr/share/openvswitch/vswitch.ovsschema"),
		NorthboundSchema: filepath.Join(prefix, "usr/share/ovn/ovn-nb.ovsschema"),
		SouthboundSchema: filepath.Join(prefix, "usr/share/ovn/ovn-sb.ovsschema"),
	}
	if prefix == "/" {
		o.Bin = "/usr/bin"
	}
	for _, file := range []string{o.SwitchSchema, o.NorthboundSchema, o.SouthboundSchema, filepath.Join(o.Bin, "ovn-northd"), filepath.Join(o.Bin, "ovs-vsctl")} {
		if _, err := os.Stat(file); err != nil {
			return OVN{}, fmt.Errorf("find OVN below %s: %w", prefix, err)
		}
	}
	return o, nil
}

// fetchOVN downloads the packages and all they depend on, and makes a prefix of them.
func (g gatherer) fetchOVN(ctx context.Context, store string) (OVN, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return OVN{}, fmt.Errorf("make cache: %w", err)
	}
	scratch, err := os.MkdirTemp(store, ".apt-")
	if err != nil {
		return OVN{}, fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	suite := fallback
	if own, err := command(ctx, "/", nil, "apt-cache", "policy", "ovn-central"); err == nil && atLeast(candidate(own), oldest) {
		suite = "" // the machine's own sources
	}
	apt, err := newAptRoot(scratch, suite)
	if err != nil {
		return OVN{}, err
	}
	if suite != "" {
		g.note("this machine's packages have no OVN %s or newer; fetching that of Debian %s into the cache", oldest, suite)
	}
	if _, err := apt.run(ctx, "apt-get", "update", "-q"); err != nil {
		return OVN{}, err
	}
	policy, err := apt.run(ctx, "apt-cache", "policy", "ovn-central")
	if err != nil {
		return OVN{}, err
	}
	version := candidate(policy)
	if !atLeast(version, oldest) {
		return OVN{}, fmt.Errorf("fetch OVN: the package sources offer %q, needed is %s", version, oldest)
	}
	download := append([]string{"apt-get", "install", "-y", "-q", "--download-only", "--no-install-recommends"}, ovnPackages...)
	if _, err := apt.run(ctx, download...); err != nil {
		return OVN{}, err
	}
	if suite == "" {
		suite = "own"
	}
	prefix := filepath.Join(store, suite+"-"+version)
	g.note("unpacking OVN %s", version)
	err = complete(prefix, func(partial string) error { return unpack(ctx, apt.archives(), partial, prefix) })
	if err != nil {
		return OVN{}, err
	}
	o, err := locateOVN(prefix)
	if err == nil && !g.newEnough(ctx, o) {
		err = fmt.Errorf("run OVN from %s: its programs do not start", prefix)
	}
	if err != nil {
		return OVN{}, errors.Join(err, os.RemoveAll(prefix))
	}
	return o, nil
}

// candidate reads the version that apt would install from what apt-cache policy prints.
func candidate(policy string) string {
	for line := range strings.Lines(policy) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); ok {
			return version
		}
	}
	return ""
}

// unpack extracts the packages into a directory and makes programs that run with the libraries beside them
// once the directory has its final name.
func unpack(ctx context.Context, archives, dir, final string) error {
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("unpack OVN: no packages in %s", archives)
	}
	for _, deb := range debs {
		if _, err := command(ctx, "/", nil, "dpkg-deb", "-x", deb, dir); err != nil {
			return err
		}
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		return fmt.Errorf("unpack OVN: expected one library directory, found %q", libraries)
	}
	relative, err := filepath.Rel(dir, libraries[0])
	if err != nil {
		return fmt.Errorf("unpack OVN: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return fmt.Errorf("unpack OVN: %w", err)
	}
	for _, pattern := range []string{"usr/bin/ov[sn]*", "usr/sbin/ov[sn]*", "usr/lib/openvswitch-switch/ovs-vswitchd"} {
		programs, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("list programs: %w", err)
		}
		for _, program := range programs {
			if err := adopt(ctx, program, filepath.Join(dir, "bin"), filepath.Join(final, relative), final); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt copies a program into bin and points it to the loader and the libraries of its own prefix. Files that
// are no programs of the machine's are left out.
func adopt(ctx context.Context, program, bin, libraries, final string) error {
	binary, err := elf.Open(program)
	if err != nil {
		return nil //nolint:nilerr // a script, or a link to a package that is not here
	}
	defer binary.Close()
	section := binary.Section(".interp")
	if section == nil {
		return nil
	}
	raw, err := section.Data()
	if err != nil {
		return fmt.Errorf("read loader of %s: %w", program, err)
	}
	loader := filepath.Join(final, "usr", strings.TrimRight(string(raw), "\x00"))
	target := filepath.Join(bin, filepath.Base(program))
	if err := copyProgram(program, target); err != nil {
		return err
	}
	// RPATH, not RUNPATH: only that is also searched for what the libraries themselves need.
	_, err = command(ctx, "/", nil, "patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, target)
	return err
}

func copyProgram(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	_, err = io.Copy(out, bufio.NewReader(in))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	return nil
}
