package parts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DebianSuite is the Debian whose packages are in images, and DebianDistribution how package URLs call it.
const (
	DebianSuite        = fallback
	DebianDistribution = "debian-13"
)

// DebianPackages are packages to have as files, for images. Nothing is resolved: what they depend on is to be among them.
type DebianPackages struct {
	// Architecture is Debian's word for the processor, which is Go's too: amd64, arm64.
	Architecture string
	Names        []string
	// Fresh: those that Debian has now, whatever is in the cache.
	Fresh bool
}

// GatherPackages returns the files of Debian packages, in the order of their names, and when they were fetched. Debian's keys
// vouch for them.
func GatherPackages(
	ctx context.Context, need Need, wanted DebianPackages, note func(format string, args ...any),
) (files []string, fetched time.Time, err error) {
	names := slices.Sorted(slices.Values(wanted.Names))
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	dir := filepath.Join(need.Cache, "debian", fmt.Sprintf("%s-%s-%x", DebianSuite, wanted.Architecture, sum[:6]))
	if wanted.Fresh || !exists(dir) {
		note("fetching %d packages of Debian %s for %s", len(names), DebianSuite, wanted.Architecture)
		if err := (gatherer{need: need, note: note}).fetchPackages(ctx, dir, wanted.Architecture, names, wanted.Fresh); err != nil {
			return nil, time.Time{}, err
		}
	}
	if files, err = filepath.Glob(filepath.Join(dir, "*.deb")); err != nil {
		return nil, time.Time{}, fmt.Errorf("find packages: %w", err)
	}
	if len(files) != len(names) {
		return nil, time.Time{}, fmt.Errorf("find packages: there are %d in %s, not %d", len(files), dir, len(names))
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("find packages: %w", err)
	}
	return files, info.ModTime(), nil
}

// fetchPackages fetches packages into a directory of the cache. With fresh it replaces what is there, once all are fetched.
func (g gatherer) fetchPackages(ctx context.Context, dir, architecture string, names []string, fresh bool) error {
	keys := []debianPackage{{"debian-archive-keyring", []string{archiveKeyring}}}
	if err := g.install(ctx, keys); err != nil {
		return err
	}
	return completeAnew(ctx, dir, fresh, func(partial string) error {
		scratch, err := os.MkdirTemp(filepath.Dir(dir), partialPrefix+"apt-")
		if err != nil {
			return fmt.Errorf("make cache: %w", err)
		}
		defer os.RemoveAll(scratch)
		apt, err := newAptRoot(scratch, DebianSuite)
		if err != nil {
			return err
		}
		if err := apt.addSecurity(DebianSuite); err != nil {
			return err
		}
		apt.options = append(apt.options, "-o", "APT::Architecture="+architecture, "-o", "APT::Architectures="+architecture)
		if err := apt.update(ctx); err != nil {
			return err
		}
		_, err = apt.runIn(ctx, partial, append([]string{"apt-get", "download", "-q"}, names...)...)
		return err
	})
}
