package install

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// ErrNotInstalled is the error of an upgrade of nothing.
var ErrNotInstalled = errors.New("Atoll is not installed here: use atoll install") //nolint:staticcheck // a name

// LastSource is what was installed last, if nobody names another: an overlay that the program brings along. An error says that
// the user's own kustomization has to be named.
func LastSource(ctx context.Context, c *Cluster) (Source, error) {
	r, err := c.readRecord(ctx)
	if err != nil {
		return Source{}, err
	}
	if r == nil {
		return Source{}, errors.New("it was not installed by atoll install: name with --overlay or -k what it was installed from")
	}
	if name, ok := strings.CutPrefix(r.Source, sourceOverlay); ok {
		return Source{Overlay: name}, nil
	}
	return Source{}, fmt.Errorf("it was installed from %s: name that, or where it is now, with -k", r.Source)
}

// Upgradable reports whether an upgrade from one version to another is supported: to the same, to a later one of the same minor
// version, or to the next minor version. told is false when a version cannot be compared, such as the tag of a private build.
func Upgradable(from, to string) (told bool, err error) {
	if !semver.IsValid(from) || !semver.IsValid(to) {
		return false, nil
	}
	switch {
	case semver.Compare(to, from) < 0:
		return true, fmt.Errorf("%w: %s is installed, and %s is older; go back by restoring what you had, not by an upgrade", ErrRefused, from,
			to)
	case semver.Major(from) != semver.Major(to):
		return true, fmt.Errorf("%w: from %s to %s is another major version", ErrRefused, from, to)
	case minorOf(to)-minorOf(from) > 1:
		return true, fmt.Errorf("%w: from %s to %s skips a minor version; go to v%s.%d first", ErrRefused, from, to,
			strings.TrimPrefix(semver.Major(from), "v"), minorOf(from)+1)
	}
	return true, nil
}

func minorOf(version string) int {
	_, minor, _ := strings.Cut(semver.MajorMinor(version), ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return n
}
