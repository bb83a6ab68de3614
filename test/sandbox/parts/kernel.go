package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// KernelParts are what tests on the kernel's datapath run with, on a machine whose own kernel lacks it.
type KernelParts struct {
	OVN OVN
	// Kernel is a program: Linux, built to run as a process (user-mode-linux), with images/kernel/config.
	Kernel string
}

// KernelSteps is how many steps GatherKernel has.
const KernelSteps = 3

// GatherKernel makes those parts that are not there yet.
func GatherKernel(ctx context.Context, need Need, progress Progress) (KernelParts, error) {
	var parts KernelParts
	g := gatherer{need: need, note: progress.Note}
	err := run(progress, []step{
		{"Debian packages", func() error { return g.packages(ctx) }},
		{"OVN and Open vSwitch", func() (err error) {
			parts.OVN, err = g.ovn(ctx)
			return err
		}},
		{"kernel with Open vSwitch", func() (err error) {
			parts.Kernel, err = g.kernel(ctx)
			return err
		}},
	})
	if err != nil {
		return KernelParts{}, err
	}
	return parts, nil
}

const (
	// kernelSuite is the Debian suite whose kernel is built: of the stable one, so that it changes seldom.
	kernelSuite = fallback
	// kernelSource depends on the package of the suite's newest source.
	kernelSource = "linux-source"
	// kernelProgram is the name of what is built.
	kernelProgram = "linux"
)

var kernelPackages = []debianPackage{
	{"bc", []string{"/usr/bin/bc"}},
	{"bison", []string{"/usr/bin/bison"}},
	{"debian-archive-keyring", []string{archiveKeyring}},
	{"flex", []string{"/usr/bin/flex"}},
	{"gcc", []string{"/usr/bin/gcc"}},
	{"libc6-dev", []string{"/usr/include/stdio.h"}},
	{"make", []string{"/usr/bin/make"}},
	{"xz-utils", []string{"/usr/bin/xz"}},
}

// kernel finds the kernel in the cache or builds it.
func (g gatherer) kernel(ctx context.Context) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("build kernel: Linux runs as a process on amd64 only, not on %s", runtime.GOARCH)
	}
	config := filepath.Join(g.need.Source, "images/kernel")
	key, err := fingerprint(config, nil, []string{kernelSuite, mended})
	if err != nil {
		return "", err
	}
	store := filepath.Join(g.need.Cache, "kernel")
	cached, err := filepath.Glob(filepath.Join(store, key+"-*"))
	if err != nil {
		return "", fmt.Errorf("list cache: %w", err)
	}
	if len(cached) > 0 {
		return filepath.Join(cached[0], kernelProgram), nil
	}
	if err := g.install(ctx, kernelPackages); err != nil {
		return "", err
	}
	if err := os.MkdirAll(store, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	scratch, err := os.MkdirTemp(store, partialPrefix+"build-")
	if err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	g.note("fetching the source of Debian %s's kernel", kernelSuite)
	version, err := fetchKernel(ctx, scratch)
	if err != nil {
		return "", err
	}
	if err := roomForRegisters(kernelTree(scratch)); err != nil {
		return "", err
	}
	path := filepath.Join(store, key+"-"+version)
	g.note("building Linux %s, the first time takes about 6 CPU minutes", version)
	err = complete(ctx, path, func(partial string) error {
		return buildKernel(ctx, filepath.Join(config, "config"), scratch, partial)
	})
	return filepath.Join(path, kernelProgram), err
}

// kernelTree is where, in a scratch directory, the kernel's source lies.
func kernelTree(scratch string) string { return filepath.Join(scratch, "source") }

// fetchKernel unpacks the kernel's source and returns its version.
func fetchKernel(ctx context.Context, scratch string) (string, error) {
	apt, err := newAptRoot(filepath.Join(scratch, "apt"), kernelSuite)
	if err != nil {
		return "", err
	}
	if err := apt.update(ctx); err != nil {
		return "", err
	}
	depends, err := apt.run(ctx, "apt-cache", "depends", kernelSource)
	if err != nil {
		return "", err
	}
	name := dependency(depends, kernelSource+"-")
	policy, err := apt.run(ctx, "apt-cache", "policy", kernelSource)
	if err != nil {
		return "", err
	}
	version := candidate(policy)
	if name == "" || version == "" {
		return "", fmt.Errorf("fetch kernel: the package sources of Debian %s have no %s", kernelSuite, kernelSource)
	}
	if _, err := apt.runIn(ctx, scratch, "apt-get", "download", "-q", name); err != nil {
		return "", err
	}
	deb, err := only(filepath.Join(scratch, name+"_*.deb"))
	if err != nil {
		return "", err
	}
	if _, err := command(ctx, scratch, nil, "dpkg-deb", "-x", deb, "package"); err != nil {
		return "", err
	}
	archive, err := only(filepath.Join(scratch, "package/usr/src", name+".tar.*"))
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(kernelTree(scratch), 0o755); err != nil {
		return "", fmt.Errorf("unpack kernel: %w", err)
	}
	_, err = command(ctx, kernelTree(scratch), nil, "tar", "-x", "--strip-components=1", "-f", archive)
	return version, err
}

// user-mode-linux up to 6.12 keeps the registers of a process' vector units in as many bytes as the processors of its day had of them.
// On one with more (AMX has 11,008), the machine below refuses them as incomplete, and the first process dies. Of more room than it
// needs it takes what it needs. (arch/x86/um/user-offsets.c; ptrace(2), PTRACE_SETREGSET. Linux 6.13 asks for the size.) The room is
// on the kernel's stacks, too: hence CONFIG_KERNEL_STACK_ORDER in images/kernel/config.
const (
	narrow = "DEFINE_LONGS(HOST_FP_SIZE, 2696);"
	mended = "DEFINE_LONGS(HOST_FP_SIZE, 16384);"
)

// roomForRegisters mends a kernel's source in this. One that says it otherwise has been changed, and is to be looked at.
func roomForRegisters(tree string) error {
	file := filepath.Join(tree, "arch/x86/um/user-offsets.c")
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("mend kernel: %w", err)
	}
	if strings.Count(string(text), narrow) != 1 {
		return fmt.Errorf("mend kernel: %s does not have %q once", file, narrow)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), narrow, mended, 1)), 0o644); err != nil {
		return fmt.Errorf("mend kernel: %w", err)
	}
	return nil
}

// buildKernel builds the kernel into a directory, beside the configuration that it came to have.
func buildKernel(ctx context.Context, config, scratch, out string) error {
	objects := filepath.Join(scratch, "objects")
	if err := os.Mkdir(objects, 0o755); err != nil {
		return fmt.Errorf("build kernel: %w", err)
	}
	// Whoever else works on the machine goes first.
	build := []string{"nice", "-n", "19", "make", "-s", "ARCH=um", "SUBARCH=x86_64", "O=" + objects}
	environment := []string{"KCONFIG_ALLCONFIG=" + config, "LC_ALL=C", "MAKEFLAGS="}
	if _, err := command(ctx, kernelTree(scratch), environment, append(slices.Clone(build), "alldefconfig")...); err != nil {
		return err
	}
	wanted, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	got, err := os.ReadFile(filepath.Join(objects, ".config"))
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if refused := refusedOptions(string(wanted), string(got)); len(refused) > 0 {
		return fmt.Errorf("configure kernel: its source does not take %s of %s", strings.Join(refused, ", "), config)
	}
	jobs := "-j" + strconv.Itoa(runtime.NumCPU())
	if _, err := command(ctx, kernelTree(scratch), environment, append(build, jobs, kernelProgram)...); err != nil {
		return err
	}
	if err := copyProgram(filepath.Join(objects, ".config"), filepath.Join(out, "config")); err != nil {
		return err
	}
	return copyProgram(filepath.Join(objects, kernelProgram), filepath.Join(out, kernelProgram))
}

// refusedOptions returns the lines NAME=VALUE of a wanted configuration that do not hold in another.
func refusedOptions(wanted, got string) []string {
	value := map[string]string{}
	for line := range strings.Lines(got) {
		if name, v, is := strings.Cut(strings.TrimSpace(line), "="); is && strings.HasPrefix(name, "CONFIG_") {
			value[name] = v
		}
	}
	var refused []string
	for line := range strings.Lines(wanted) {
		line = strings.TrimSpace(line)
		name, v, is := strings.Cut(line, "=")
		if !is || !strings.HasPrefix(name, "CONFIG_") {
			continue
		}
		// An option that is off is not there.
		if have := value[name]; have != v && (have != "" || v != "n") {
			refused = append(refused, line)
		}
	}
	return refused
}

// dependency finds a package's dependency whose name begins with prefix in what apt-cache depends prints.
func dependency(depends, prefix string) string {
	for line := range strings.Lines(depends) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); is && strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return ""
}

// only is the one file of a pattern.
func only(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) != 1 {
		err = errors.New("expected one file")
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w, found %q", pattern, err, files)
	}
	return files[0], nil
}
