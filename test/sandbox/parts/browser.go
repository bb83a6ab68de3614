package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Browser is a Chromium without a window, by which tests look at pages.
type Browser struct {
	// Program is started with Environment added to its own.
	Program     string
	Environment []string
}

// browserPackages are what a page needs to be drawn: Chromium's program for machines without a screen, and a font. All that they
// depend on is fetched, too.
var browserPackages = []string{"chromium-headless-shell", "fonts-dejavu-core", "fontconfig-config"}

// GatherBrowser makes what is not there yet: Debian's packages, unpacked in the cache with their own C library, and never
// installed. The cache takes 0.5 GB.
func GatherBrowser(ctx context.Context, need Need, note func(format string, args ...any)) (Browser, error) {
	prefix := filepath.Join(need.Cache, "chromium", DebianSuite+"-"+runtime.GOARCH)
	b := Browser{
		Program:     filepath.Join(prefix, "usr/lib/chromium/chromium-headless-shell"),
		Environment: []string{"FONTCONFIG_FILE=" + filepath.Join(prefix, fontsFile)},
	}
	if exists(prefix) {
		return b, nil
	}
	g := gatherer{need: need, note: note}
	if err := g.install(ctx,
		[]debianPackage{{"patchelf", []string{"/usr/bin/patchelf"}}, {"debian-archive-keyring", []string{archiveKeyring}}}); err != nil {
		return Browser{}, err
	}
	note("fetching Chromium of Debian %s into the cache", DebianSuite)
	if err := complete(ctx, prefix, func(partial string) error { return fetchBrowser(ctx, partial, prefix) }); err != nil {
		return Browser{}, err
	}
	said, err := command(ctx, "/", b.Environment, b.Program, "--version")
	if err != nil {
		return Browser{}, errors.Join(fmt.Errorf("run Chromium from %s: %w", prefix, err), os.RemoveAll(prefix))
	}
	note("%s", strings.TrimSpace(said))
	return b, nil
}

// fontsFile is below the prefix.
const fontsFile = "fonts.conf"

// fetchBrowser fetches the packages with all that they depend on, and makes a program of them that will be at the final directory.
func fetchBrowser(ctx context.Context, dir, final string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(final), partialPrefix+"apt-")
	if err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	apt, err := newAptRoot(scratch, DebianSuite)
	if err != nil {
		return err
	}
	if err := errors.Join(apt.addSecurity(DebianSuite), apt.update(ctx)); err != nil {
		return err
	}
	if err := apt.download(ctx, browserPackages); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(apt.archives(), "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("unpack Chromium: no packages in %s", apt.archives())
	}
	if err := extract(ctx, debs, dir); err != nil {
		return err
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		return fmt.Errorf("unpack Chromium: expected one library directory, found %q", libraries)
	}
	relative, err := filepath.Rel(dir, libraries[0])
	if err != nil {
		return fmt.Errorf("unpack Chromium: %w", err)
	}
	// It stays beside its data, and finds what it needs below the final directory.
	program := filepath.Join(dir, "usr/lib/chromium/chromium-headless-shell")
	if err := adopt(ctx, program, dir, filepath.Join(final, relative), final); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, filepath.Base(program)), program); err != nil {
		return fmt.Errorf("unpack Chromium: %w", err)
	}
	// PulseAudio's library looks for another of its own where Debian installs it, and nowhere else.
	search := filepath.Join(final, relative, "pulseaudio") + ":" + filepath.Join(final, relative)
	if _, err := command(ctx, "/", nil, "patchelf", "--force-rpath",
		"--set-rpath", search, filepath.Join(libraries[0], "libpulse.so.0")); err != nil {
		return err
	}
	fonts := fmt.Sprintf(`<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>%s</dir>
  <cachedir>%s</cachedir>
</fontconfig>
`, filepath.Join(final, "usr/share/fonts"), filepath.Join(final, "fontcache"))
	if err := os.WriteFile(filepath.Join(dir, fontsFile), []byte(fonts), 0o644); err != nil {
		return fmt.Errorf("unpack Chromium: %w", err)
	}
	return nil
}
