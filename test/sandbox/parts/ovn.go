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
	"slices"
	"strings"
)

// OVN says where the programs and schemas of OVN and Open vSwitch are.
type OVN struct {
	// Dirs have ovsdb-server, ovs-vswitchd, ovn-northd, ovn-controller and the command line tools.
	Dirs []string
	// The schemas of the three databases.
	SwitchSchema, NorthboundSchema, SouthboundSchema string
}

// Program returns the path of one of the programs.
func (o OVN) Program(name string) string {
	for _, dir := range o.Dirs {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return name
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
		return LocateOVN(g.need.OVNPrefix)
	}
	if installed, err := LocateOVN("/"); err == nil && g.newEnough(ctx, installed) {
		return installed, nil
	}
	store := filepath.Join(g.need.Cache, "ovn")
	cached, err := filepath.Glob(filepath.Join(store, "[a-z]*-*"))
	if err != nil {
		return OVN{}, fmt.Errorf("list cache: %w", err)
	}
	if len(cached) > 0 {
		return LocateOVN(cached[len(cached)-1]) // the newest
	}
	return g.fetchOVN(ctx, store)
}

// newEnough asks an OVN that is installed for its version.
func (g gatherer) newEnough(ctx context.Context, o OVN) bool {
	printed, err := command(ctx, "/", nil, o.Program("ovn-northd"), "--version")
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(printed, "\n") // ovn-northd 25.03.0
	return supported(first[strings.LastIndex(first, " ")+1:])
}

// supported tells whether a version of OVN, which begins with year and month, is not older than the oldest.
func supported(version string) bool {
	return len(version) >= len(oldest) && version[0] >= '0' && version[0] <= '9' && version[:len(oldest)] >= oldest
}

// programs and schemas that a sandbox needs. ovs-vswitchd has a directory of its own in Debian.
var (
	ovnPrograms = []string{
		"ovsdb-server", "ovsdb-tool", "ovs-vswitchd", "ovs-vsctl", "ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl",
	}
	ovnDirs       = []string{"bin", "sbin", "usr/bin", "usr/sbin", "usr/lib/openvswitch-switch"}
	ovnSchemaDirs = []string{"usr/share", "share"}
)

// LocateOVN finds programs and schemas below a prefix: / for installed packages, what fetchOVN made, or where
// someone installed a build of their own.
func LocateOVN(prefix string) (OVN, error) {
	var o OVN
	for _, dir := range ovnDirs {
		dir = filepath.Join(prefix, dir)
		// Only where something is that was not found before: other programs there are none of ours, and all of
		// these directories come to stand in search paths.
		adds := func(name string) bool { return !filepath.IsAbs(o.Program(name)) && exists(filepath.Join(dir, name)) }
		if slices.ContainsFunc(ovnPrograms, adds) {
			o.Dirs = append(o.Dirs, dir)
		}
	}
	for _, name := range ovnPrograms {
		if !filepath.IsAbs(o.Program(name)) {
			return OVN{}, fmt.Errorf("find OVN below %s: no %s", prefix, name)
		}
	}
	for _, schema := range []struct {
		file string
		path *string
	}{
		{"openvswitch/vswitch.ovsschema", &o.SwitchSchema},
		{"ovn/ovn-nb.ovsschema", &o.NorthboundSchema},
		{"ovn/ovn-sb.ovsschema", &o.SouthboundSchema},
	} {
		for _, dir := range ovnSchemaDirs {
			if path := filepath.Join(prefix, dir, schema.file); *schema.path == "" && exists(path) {
				*schema.path = path
			}
		}
		if *schema.path == "" {
			return OVN{}, fmt.Errorf("find OVN below %s: no %s", prefix, schema.file)
		}
	}
	return o, nil
}

// fetchOVN downloads the packages and all they depend on, and makes a prefix of them.
func (g gatherer) fetchOVN(ctx context.Context, store string) (OVN, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return OVN{}, fmt.Errorf("make cache: %w", err)
	}
	scratch, err := os.MkdirTemp(store, partialPrefix+"apt-")
	if err != nil {
		return OVN{}, fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	suite := fallback
	if own, err := command(ctx, "/", nil, "apt-cache", "policy", "ovn-central"); err == nil && supported(candidate(own)) {
		suite = "" // the machine's own sources
	}
	apt, err := newAptRoot(scratch, suite)
	if err != nil {
		return OVN{}, err
	}
	if suite != "" {
		g.note("this machine's packages have no OVN %s or newer; fetching that of Debian %s into the cache", oldest, suite)
	}
	if err := apt.update(ctx); err != nil {
		return OVN{}, err
	}
	policy, err := apt.run(ctx, "apt-cache", "policy", "ovn-central")
	if err != nil {
		return OVN{}, err
	}
	version := candidate(policy)
	if !supported(version) {
		return OVN{}, fmt.Errorf("fetch OVN: the package sources offer %q, needed is %s", version, oldest)
	}
	if err := apt.download(ctx, ovnPackages); err != nil {
		return OVN{}, err
	}
	if suite == "" {
		suite = "own"
	}
	prefix := filepath.Join(store, suite+"-"+version)
	g.note("unpacking OVN %s", version)
	err = complete(ctx, prefix, func(partial string) error { return unpack(ctx, apt.archives(), partial, prefix) })
	if err != nil {
		return OVN{}, err
	}
	o, err := LocateOVN(prefix)
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

// unpack makes programs of OVN's packages.
func unpack(ctx context.Context, archives, dir, final string) error {
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("unpack OVN: no packages in %s", archives)
	}
	return unpackPrograms(ctx, unpacking{
		debs: debs, dir: dir, final: final, programs: []string{"usr/bin/ov[sn]*", "usr/sbin/ov[sn]*", "usr/lib/openvswitch-switch/ovs-vswitchd"},
	})
}

// unpacking is packages to be unpacked into a directory, which will have a final name, and patterns of the programs that are
// wanted of them.
type unpacking struct {
	debs       []string
	dir, final string
	programs   []string
}

// unpackPrograms extracts the packages into a directory and makes programs that run with the libraries beside them
// once the directory has its final name.
func unpackPrograms(ctx context.Context, u unpacking) error {
	if err := extract(ctx, u.debs, u.dir); err != nil {
		return err
	}
	libraries, err := filepath.Glob(filepath.Join(u.dir, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		return fmt.Errorf("unpack packages: expected one library directory, found %q", libraries)
	}
	relative, err := filepath.Rel(u.dir, libraries[0])
	if err != nil {
		return fmt.Errorf("unpack packages: %w", err)
	}
	if err := os.Mkdir(filepath.Join(u.dir, "bin"), 0o755); err != nil {
		return fmt.Errorf("unpack packages: %w", err)
	}
	for _, pattern := range u.programs {
		programs, err := filepath.Glob(filepath.Join(u.dir, pattern))
		if err != nil {
			return fmt.Errorf("list programs: %w", err)
		}
		if len(programs) == 0 {
			return fmt.Errorf("unpack packages: none has %s", pattern)
		}
		for _, program := range programs {
			if err := adopt(ctx, program, filepath.Join(u.dir, "bin"), filepath.Join(u.final, relative), u.final); err != nil {
				return err
			}
		}
	}
	return nil
}

// extract unpacks packages into a directory.
func extract(ctx context.Context, debs []string, dir string) error {
	for _, deb := range debs {
		if _, err := command(ctx, "/", nil, "dpkg-deb", "-x", deb, dir); err != nil {
			return err
		}
	}
	return nil
}

// adopt copies a program into bin and points it to the loader and the libraries of its own prefix. Files that
// are no programs of the machine's are left out.
func adopt(ctx context.Context, program, bin, libraries, final string) error {
	binary, err := elf.Open(program)
	if err != nil {
		return nil // a script, or a link to a package that is not here
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
