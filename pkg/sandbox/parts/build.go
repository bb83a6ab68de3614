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

// module is a Go module of the source tree and how its programs are built.
type module struct {
	// name is the part's name; dir is the module's directory in the source tree, which may be a package
	// of Atoll's own module.
	name, dir string
	// pattern is what go build builds: the package here, or all tools that go.mod names.
	pattern string
	cgo     bool
	tags    string
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

var (
	kubernetes = module{
		name: "kubernetes", dir: "images/sandbox/kubernetes", pattern: ".",
		versioned: "k8s.io/kubernetes",
		stamped:   []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
		links:     []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"},
		hint:      "about 10 CPU minutes",
	}
	etcd       = module{name: "etcd", dir: "images/sandbox/etcd", pattern: ".", hint: "about 1 CPU minute"}
	containerd = module{name: "containerd", dir: "images/sandbox/containerd", pattern: "tool", hint: "about 2 CPU minutes"}
	runc       = module{name: "runc", dir: "images/sandbox/runc", pattern: "tool", cgo: true, tags: "seccomp", hint: "some seconds"}
	cni        = module{name: "cni", dir: "images/sandbox/cni", pattern: "tool", hint: "some seconds"}
	coredns    = module{name: "coredns", dir: "images/sandbox/coredns", pattern: ".", hint: "about 2 CPU minutes"}
	pause      = module{name: "pause", dir: "images/sandbox/pause", pattern: "."}
	netprobe   = module{name: "netprobe", dir: "test/netprobe", pattern: "."}
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
	source := filepath.Join(g.need.Source, m.dir)
	arguments, err := m.arguments(source)
	if err != nil {
		return err
	}
	key, err := fingerprint(source, arguments)
	if err != nil {
		return err
	}
	path := filepath.Join(g.need.Cache, "parts", m.name+"-"+key)
	if exists(path) {
		*dir = path
		return nil
	}
	if m.hint != "" {
		g.note("building, the first time takes %s", m.hint)
	}
	err = complete(path, func(partial string) error {
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
	*dir = path
	return err
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

// build runs the Go tool. A module of one package gives one program under the part's name.
func (m module) build(ctx context.Context, source, out string, arguments []string) error {
	tool, err := goCommand()
	if err != nil {
		return err
	}
	target := filepath.Join(out, m.name)
	if m.pattern != "." {
		target = out + "/"
	}
	cgo := "CGO_ENABLED=0"
	if m.cgo {
		cgo = "CGO_ENABLED=1"
	}
	argv := append(append([]string{tool}, arguments...), "-o", target, m.pattern)
	_, err = command(ctx, source, []string{cgo, "GOFLAGS=", "GOWORK=off"}, argv...)
	return err
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

// fingerprint is a short name for the files of a directory together with how they are built.
func fingerprint(dir string, arguments []string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return "", fmt.Errorf("list sources: %w", err)
	}
	slices.Sort(files)
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", arguments)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(data))
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}
