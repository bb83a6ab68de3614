package parts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// module is a part that Go builds of a module of the source tree.
type module struct {
	// name is the part's name; dir is the directory in the source tree in which packages are looked for.
	name, dir string
	// packages are programs, as go build takes them. Each is called by the last element of its path.
	packages []string
	cgo      bool
	tags     string
	// versioned names a module whose version is stamped into the variables of the packages.
	versioned string
	stamped   []string
	// links are further names of the one program that is built.
	links []string
	// hint tells a person how long the first build takes.
	hint string
	// also, if not nil, makes more of the module in the same directory.
	also func(ctx context.Context, source, out string, arguments []string) error
}

// upstream is the module of other projects' programs that have much in common. They are built as Atoll is (Makefile), so that Go compiles
// once what they have in common, with each other and with Atoll.
const upstream = "images/sandbox"

var (
	kubernetes = module{
		name: "kubernetes", dir: upstream, packages: []string{"./kubernetes"},
		versioned: "k8s.io/kubernetes",
		stamped:   []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
		links:     []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"},
		hint:      "about 9 CPU minutes",
	}
	etcd       = module{name: "etcd", dir: upstream, packages: []string{"./etcd"}, hint: "less than a CPU minute"}
	containerd = module{
		name: "containerd", dir: "images/sandbox/containerd", packages: []string{
			"github.com/containerd/containerd/v2/cmd/containerd",
			"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"github.com/containerd/containerd/v2/cmd/ctr",
		},
		hint: "about 2 CPU minutes",
	}
	cni = module{
		name: "cni", dir: upstream, packages: []string{"github.com/containernetworking/plugins/plugins/meta/portmap"}, hint: "some seconds",
	}
	coredns = module{name: "coredns", dir: upstream, packages: []string{"./coredns"}, hint: "some seconds"}
	runc    = module{
		name: "runc", dir: "images/sandbox/runc", packages: []string{"github.com/opencontainers/runc"}, cgo: true, tags: "seccomp",
		hint: "some seconds",
	}
	pause    = module{name: "pause", dir: "images/pause", packages: []string{"."}}
	netprobe = module{name: "netprobe", dir: "test/netprobe", packages: []string{"."}}
)

// program makes a module of one program, unless path names it already.
func (g gatherer) program(ctx context.Context, m module, path *string) error {
	if *path != "" {
		return check(*path)
	}
	var dir string
	if err := g.module(ctx, m, &dir); err != nil {
		return err
	}
	*path = filepath.Join(dir, m.name)
	return nil
}

// module makes the programs of a module in a directory of the cache, unless dir names one already.
func (g gatherer) module(ctx context.Context, m module, dir *string) error {
	if *dir != "" {
		return check(*dir)
	}
	path, arguments, err := g.place(m)
	if err != nil {
		return err
	}
	*dir = path
	if exists(path) {
		return nil
	}
	if m.hint != "" {
		g.note("building, the first time takes %s", m.hint)
	}
	source := filepath.Join(g.need.Source, m.dir)
	return complete(ctx, path, func(partial string) error {
		if err := m.build(ctx, source, partial, arguments); err != nil {
			return err
		}
		for _, link := range m.links {
			if err := os.Symlink(m.name, filepath.Join(partial, link)); err != nil {
				return fmt.Errorf("name program: %w", err)
			}
		}
		if m.also != nil {
			return m.also(ctx, source, partial, arguments)
		}
		return nil
	})
}

// place is where a module's programs are in the cache, and how Go builds them.
func (g gatherer) place(m module) (path string, arguments []string, err error) {
	source := filepath.Join(g.need.Source, m.dir)
	if arguments, err = m.arguments(source); err != nil {
		return "", nil, err
	}
	key, err := fingerprint(source, m.packages, arguments)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(g.need.Cache, "parts", m.name+"-"+key), arguments, nil
}

// builds tells whether a module's programs are not in the cache yet.
func (g gatherer) builds(m module) bool {
	path, _, err := g.place(m)
	return err == nil && !exists(path)
}

// download fetches the modules that programs are built of, unless the largest of them is there already. It returns at once: meanwhile
// Debian's packages are fetched. The function that it returns ends it. Its failure is none: building fetches what is missing, and says why
// it cannot.
func (g gatherer) download(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	tool, err := goCommand()
	if err != nil || g.need.KubernetesBin != "" || !g.builds(kubernetes) {
		return cancel
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = command(ctx, filepath.Join(g.need.Source, upstream), buildEnvironment("0"), tool, "mod", "download")
	}()
	return func() {
		cancel()
		<-done
	}
}

func check(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("find named part: %w", err)
	}
	return nil
}

func (m module) arguments(source string) ([]string, error) {
	linker := "-s -w"
	if m.versioned != "" {
		version, err := requiredVersion(filepath.Join(source, "go.mod"), m.versioned)
		if err != nil {
			return nil, err
		}
		linker += stamp(version, m.stamped)
	}
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly"}
	if m.tags != "" {
		arguments = append(arguments, "-tags", m.tags)
	}
	return append(arguments, "-ldflags", linker), nil
}

// stamp forms linker flags that set Kubernetes' version variables, which its own build sets the same way.
func stamp(version string, packages []string) string {
	var flags strings.Builder
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	for _, p := range packages {
		for _, v := range [][2]string{{"gitVersion", version}, {"gitMajor", major}, {"gitMinor", minor}, {"gitTreeState", "clean"}} {
			fmt.Fprintf(&flags, " -X %s.%s=%s", p, v[0], v[1])
		}
	}
	return flags.String()
}

// build runs the Go tool.
func (m module) build(ctx context.Context, source, out string, arguments []string) error {
	tool, err := goCommand()
	if err != nil {
		return err
	}
	cgo := "0"
	if m.cgo {
		cgo = "1"
	}
	argv := append(append([]string{tool}, arguments...), "-o", out+"/")
	_, err = command(ctx, source, buildEnvironment(cgo), append(argv, m.packages...)...)
	return err
}

// buildEnvironment is how the Go tool is called. The compiler collects garbage less often than it would: that saves a sixth of its time.
func buildEnvironment(cgo string) []string {
	return []string{"CGO_ENABLED=" + cgo, "GOFLAGS=", "GOWORK=off", "GOGC=300"}
}

func requiredVersion(goMod, path string) (string, error) {
	data, err := os.ReadFile(goMod)
	if err != nil {
		return "", fmt.Errorf("read module: %w", err)
	}
	file, err := modfile.ParseLax(goMod, data, nil)
	if err != nil {
		return "", fmt.Errorf("parse module: %w", err)
	}
	for _, r := range file.Require {
		if r.Mod.Path == path {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("find version: %s does not require %s", goMod, path)
}

// fingerprint is a short name for what programs are built of: the files of a module's directory and of those packages that are below it,
// and how they are built.
func fingerprint(dir string, packages, arguments []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", packages, arguments)
	patterns := []string{"*"}
	for _, p := range packages {
		if below, ok := strings.CutPrefix(p, "./"); ok {
			patterns = append(patterns, filepath.Join(below, "*"))
		}
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", fmt.Errorf("list sources: %w", err)
		}
		slices.Sort(files)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.IsDir() {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("read source: %w", err)
			}
			fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(data))
			sum.Write(data)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}
