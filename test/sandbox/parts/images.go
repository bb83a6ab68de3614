package parts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-net/atoll/images/image"
)

// References of the images that the sandbox brings.
const (
	PauseImage    = "atoll.dev/pause:sandbox"
	NetprobeImage = "atoll.dev/netprobe:sandbox"
	CoreDNSImage  = "atoll.dev/coredns:sandbox"
)

// images packs the images, and names the programs in them that run outside of pods too.
func (g gatherer) images(ctx context.Context, parts *Parts) error {
	dir := filepath.Join(g.need.Cache, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	pauseProgram, err := g.ownProgram(ctx, dir, pause)
	if err != nil {
		return err
	}
	if parts.Netprobe, err = g.ownProgram(ctx, dir, netprobe); err != nil {
		return err
	}
	for _, wanted := range []image.Image{
		{Reference: PauseImage, Program: pauseProgram, Name: pause.name},
		{Reference: NetprobeImage, Program: parts.Netprobe, Name: netprobe.name},
		{Reference: CoreDNSImage, Program: parts.CoreDNS, Name: coredns.name},
	} {
		archive, err := pack(dir, wanted)
		if err != nil {
			return err
		}
		parts.Images = append(parts.Images, archive)
	}
	return nil
}

// ownProgram builds a program of Atoll's own module. That is done each time, which the Go tool makes cheap, so that a
// change of anything that goes into it is seen; it is kept under a name with the sum of its content.
func (g gatherer) ownProgram(ctx context.Context, dir string, m module) (string, error) {
	source := filepath.Join(g.need.Source, m.dir)
	if _, err := os.Stat(filepath.Join(source, "main.go")); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build %s: no program in %s", m.name, source)
	}
	scratch, err := os.MkdirTemp(dir, ".build-*")
	if err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(scratch)
	arguments, err := m.arguments(source)
	if err != nil {
		return "", err
	}
	if err := m.build(ctx, source, scratch, arguments); err != nil {
		return "", err
	}
	built := filepath.Join(scratch, m.name)
	sum, err := contentSum(built)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, m.name+"-"+sum)
	if exists(path) {
		return path, nil
	}
	if err := os.Rename(built, path); err != nil {
		return "", fmt.Errorf("keep in cache: %w", err)
	}
	return path, nil
}

// pack makes the archive of an image, unless there is one of the same program.
func pack(dir string, wanted image.Image) (string, error) {
	sum, err := contentSum(wanted.Program)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(dir, wanted.Name+"-"+sum+".tar")
	if exists(archive) {
		return archive, nil
	}
	return archive, image.Write(archive, wanted)
}

// contentSum is a short name for the content of a file.
func contentSum(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read program: %w", err)
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:6]), nil
}
