package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// aptRoot is apt with lists, cache and package status of its own, so that it neither sees nor changes what is
// installed on the machine.
type aptRoot struct {
	dir     string
	options []string
}

// newAptRoot makes an apt root for a Debian suite, or for the machine's own package sources if suite is empty.
func newAptRoot(dir, suite string) (aptRoot, error) {
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "state", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return aptRoot{}, fmt.Errorf("make apt root: %w", err)
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return aptRoot{}, fmt.Errorf("make apt root: %w", err)
	}
	a := aptRoot{dir: dir, options: []string{
		"-o", "Dir::State=" + filepath.Join(dir, "state"),
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::Cache::archives=" + filepath.Join(dir, "cache/archives"),
		"-o", "APT::Sandbox::User=root",
	}}
	if suite == "" {
		return a, nil
	}
	sources := filepath.Join(dir, "sources.list")
	line := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", archiveKeyring, mirror("/etc/apt"), suite)
	if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
		return aptRoot{}, fmt.Errorf("make apt root: %w", err)
	}
	a.options = append(a.options,
		"-o", "Dir::Etc::sourcelist="+sources,
		"-o", "Dir::Etc::sourceparts="+filepath.Join(dir, "parts"),
		"-o", "Dir::Etc::preferencesparts="+filepath.Join(dir, "parts"))
	return a, nil
}

// addSecurity adds what Debian mends in a suite between its releases.
func (a aptRoot) addSecurity(suite string) error {
	list, err := os.OpenFile(filepath.Join(a.dir, "sources.list"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("make apt root: %w", err)
	}
	_, err = fmt.Fprintf(list, "deb [signed-by=%s] %s %s-security main\n", archiveKeyring, mirrorOf("/etc/apt", "debian-security"), suite)
	if err := errors.Join(err, list.Close()); err != nil {
		return fmt.Errorf("make apt root: %w", err)
	}
	return nil
}

func (a aptRoot) archives() string { return filepath.Join(a.dir, "cache/archives") }

// run calls apt-get or apt-cache.
func (a aptRoot) run(ctx context.Context, argv ...string) (string, error) {
	return a.runIn(ctx, "/", argv...)
}

// update fetches the lists of packages.
func (a aptRoot) update(ctx context.Context) error {
	_, err := a.run(ctx, "apt-get", "update", "-q")
	return err
}

// download fetches packages and all that they depend on into the archives.
func (a aptRoot) download(ctx context.Context, packages []string) error {
	_, err := a.run(ctx, append([]string{"apt-get", "install", "-y", "-q", "--download-only", "--no-install-recommends"}, packages...)...)
	return err
}

// runIn does so in a directory, into which apt-get downloads.
func (a aptRoot) runIn(ctx context.Context, dir string, argv ...string) (string, error) {
	full := append(append([]string{argv[0]}, a.options...), argv[1:]...)
	return command(ctx, dir, []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}, full...)
}

// mirror finds the mirror of Debian's main archive that the machine uses.
func mirror(etc string) string { return mirrorOf(etc, "debian") }

// mirrorOf finds the mirror of one of Debian's archives that the machine uses, in either format of source lists (sources.list(5)).
func mirrorOf(etc, archive string) string {
	files, _ := filepath.Glob(filepath.Join(etc, "sources.list.d", "*"))
	for _, file := range append([]string{filepath.Join(etc, "sources.list")}, files...) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if uri := debianURI(line, archive); uri != "" {
				return uri
			}
		}
	}
	return "http://deb.debian.org/" + archive
}

// debianURI returns the address of one of Debian's archives if the line of a source list names it.
func debianURI(line, archive string) string {
	fields := strings.Fields(line)
	if len(fields) < 2 || (fields[0] != "URIs:" && fields[0] != "deb") {
		return ""
	}
	for _, field := range fields[1:] {
		if strings.Contains(field, "://") && strings.HasSuffix(strings.TrimRight(field, "/"), "/"+archive) {
			return strings.TrimRight(field, "/")
		}
	}
	return ""
}
