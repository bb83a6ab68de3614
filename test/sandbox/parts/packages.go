package parts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianPackage is a package of the machine and a file by which one sees that what it brings is there.
// Several patterns of the file are alternatives.
type debianPackage struct {
	name  string
	files []string
}

// packagesFor lists what building and running the parts takes, less what is not needed for parts that are named.
func packagesFor(need Need) []debianPackage {
	program := func(name string) []string {
		return []string{"/usr/sbin/" + name, "/usr/bin/" + name, "/sbin/" + name, "/bin/" + name}
	}
	list := []debianPackage{
		{"ca-certificates", []string{"/etc/ssl/certs/ca-certificates.crt"}},
		{"conntrack", program("conntrack")},
		{"ethtool", program("ethtool")},
		{"iproute2", program("ip")},
		{"nftables", program("nft")},
		{"util-linux", program("nsenter")},
	}
	if need.OVNPrefix == "" {
		list = append(list,
			debianPackage{"patchelf", program("patchelf")},
			debianPackage{"debian-archive-keyring", []string{archiveKeyring}})
	}
	if need.Runc == "" {
		list = append(list,
			debianPackage{"gcc", program("gcc")},
			debianPackage{"libc6-dev", []string{"/usr/include/stdio.h"}},
			debianPackage{"libseccomp-dev", []string{"/usr/include/seccomp.h"}},
			debianPackage{"pkg-config", program("pkg-config")})
	}
	return list
}

func missing(list []debianPackage) []string {
	var names []string
	for _, p := range list {
		found := false
		for _, file := range p.files {
			found = found || exists(file)
		}
		if !found {
			names = append(names, p.name)
		}
	}
	return names
}

// packages installs what the parts that are wanted take.
func (g gatherer) packages(ctx context.Context) error { return g.install(ctx, packagesFor(g.need)) }

// install installs those Debian packages of a list that are missing. With nothing missing it does not touch apt.
func (g gatherer) install(ctx context.Context, list []debianPackage) error {
	names := missing(list)
	if len(names) == 0 {
		return nil
	}
	unlock, err := Lock(ctx,
		filepath.Join(g.need.Cache, ".lock")) // apt waits for the lock of installing alone, not for that of fetching lists
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s: this machine has no apt-get; install what they bring by hand", strings.Join(names, ", "))
	}
	g.note("installing %s", strings.Join(names, " "))
	environment := []string{"DEBIAN_FRONTEND=noninteractive"}
	install := installCommand(nil, names)
	if lists, _ := filepath.Glob("/var/lib/apt/lists/*_Packages*"); len(lists) > 0 {
		if _, err := command(ctx, "/", environment, install...); err == nil {
			return nil
		} // the lists may be old: fetch them and try again
	}
	if _, err := command(ctx, "/", environment, "apt-get", "update", "-q"); err != nil {
		return err
	}
	_, err = command(ctx, "/", environment, install...)
	if still := missing(list); err == nil && len(still) > 0 {
		err = fmt.Errorf("install packages: %s still missing", strings.Join(still, ", "))
	}
	return err
}

// lockPatience is how long apt waits, in seconds, for somebody else who installs packages: unattended upgrades of a machine that
// has just started take minutes. (DPkg::Lock::Timeout in apt.conf(5).)
const lockPatience = 600

// installCommand installs packages, with more options of apt.
func installCommand(options, names []string) []string {
	argv := append([]string{"apt-get", "-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", lockPatience)}, options...)
	return append(append(argv, "install", "-y", "-q", "--no-install-recommends"), names...)
}

// goCommand finds the Go tool chain, also where it lies by default but is not in the search path.
func goCommand() (string, error) {
	if path, err := exec.LookPath("go"); err == nil {
		return path, nil
	}
	const usual = "/usr/local/go/bin/go"
	if _, err := os.Stat(usual); err != nil {
		return "", fmt.Errorf("find Go: it is neither in PATH nor at %s", usual)
	}
	return usual, nil
}
