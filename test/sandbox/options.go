package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"golang.org/x/mod/modfile"
)

// Module is the path of Atoll's Go module; the source tree is recognised by it.
const Module = "github.com/atoll-net/atoll"

// Defaults of Options.
const (
	DefaultName  = "atoll"
	DefaultNodes = 3
	DefaultCache = "/var/cache/atoll"
	DefaultState = "/var/lib/atoll-sandbox"
)

// Values of Options.Overlay.
const (
	OverlayHA     = "ha"
	OverlaySingle = "single"
)

// Options say what sandbox to make and from which parts. The zero value of each field means its default.
type Options struct {
	// Name tells sandboxes on one machine apart: it begins the names of network namespaces and cgroups.
	Name string
	// Nodes is the number of nodes, 1 to 20.
	Nodes int
	// Cache holds what is built and downloaded. It is all that Down leaves.
	Cache string
	// State holds everything else: databases, certificates, logs, container storage. Its file system must be
	// one that overlayfs can write to (ext4, xfs, tmpfs), which another overlay is not.
	State string
	// Source is Atoll's source tree, for the manifests, the nested modules and the test image.
	// By default the one around the program or the working directory.
	Source string
	// Bin is where the command line atoll is, which installs; by default beside the program.
	Bin string
	// Program is the atoll-sandbox executable, which is also the first process of every place.
	// By default the running one, if it is that, else the one in Bin.
	Program string

	// Third-party parts that are on the machine already. What is named here is not built.
	KubernetesBin string
	ContainerdBin string
	Etcd          string
	Runc          string
	OVNPrefix     string

	// Bare leaves Atoll out: a cluster without a network plugin to install it in. Its nodes have Atoll's images, and stay
	// NotReady.
	Bare bool
	// Overlay is what Up installs: OverlayHA, with three members of each of OVN's databases, or OverlaySingle, with one.
	Overlay string
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// maxNodes is what the addressing and one machine carry.
const maxNodes = 20

// maxStatePath keeps the longest unix socket below the state directory under the kernel's 108 bytes.
const maxStatePath = 60

// withDefaults returns the options complete and checked. Paths come back absolute.
func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Name, DefaultName)
	setDefault(&o.Cache, DefaultCache)
	setDefault(&o.State, DefaultState)
	setDefault(&o.Overlay, OverlayHA)
	if o.Overlay != OverlayHA && o.Overlay != OverlaySingle {
		return o, fmt.Errorf("check overlay %q: there are %s and %s", o.Overlay, OverlayHA, OverlaySingle)
	}
	if o.Nodes == 0 {
		o.Nodes = DefaultNodes
	}
	if !namePattern.MatchString(o.Name) {
		return o, fmt.Errorf("check name %q: it must match %s", o.Name, namePattern)
	}
	if o.Nodes < 1 || o.Nodes > maxNodes {
		return o, fmt.Errorf("check nodes %d: between 1 and %d are possible", o.Nodes, maxNodes)
	}
	for _, path := range []*string{
		&o.Cache, &o.State, &o.Source, &o.Bin, &o.Program, &o.KubernetesBin, &o.ContainerdBin, &o.Etcd, &o.Runc, &o.OVNPrefix,
	} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("resolve path %s: %w", *path, err)
		}
		*path = abs
	}
	if len(o.State) > maxStatePath {
		return o, fmt.Errorf("check state directory %s: longer than %d characters, unix sockets below it would not fit", o.State, maxStatePath)
	}
	return o, nil
}

// locate finds the source tree and the programs. Only Up needs them.
func (o Options) locate() (Options, error) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return o, errors.New("start sandbox: it needs Linux and root (it makes namespaces, mounts and cgroups)")
	}
	if err := o.checkInotify(); err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find own executable: %w", err)
	}
	if o.Source == "" {
		cwd, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("find working directory: %w", err)
		}
		for _, start := range []string{filepath.Dir(self), cwd} {
			if o.Source = sourceAround(start); o.Source != "" {
				break
			}
		}
	}
	if o.Source == "" || sourceAround(o.Source) != o.Source {
		return o, fmt.Errorf("find source tree of %s (looked at %q): name it with --source", Module, o.Source)
	}
	if o.Program == "" && filepath.Base(self) == "atoll-sandbox" {
		o.Program = self
	}
	if o.Bin == "" {
		o.Bin = filepath.Join(o.Source, "bin")
		if o.Program != "" {
			o.Bin = filepath.Dir(o.Program)
		}
	}
	setDefault(&o.Program, filepath.Join(o.Bin, "atoll-sandbox"))
	for _, path := range []string{o.Program, filepath.Join(o.Bin, "atoll")} {
		if _, err := os.Stat(path); err != nil {
			return o, fmt.Errorf("find program: %w (make build puts it there)", err)
		}
	}
	return o, nil
}

// sourceAround returns the nearest directory at or above dir that holds Atoll's go.mod, or "".
func sourceAround(dir string) string {
	for {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && modfile.ModulePath(data) == Module {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
