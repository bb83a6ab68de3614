package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/images/image/spdx"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// builder builds images of a source tree.
type builder struct {
	source, out, scratch string
	// compiled is where programs are built; without it in scratch.
	compiled string
	// stamped is the source as programs are built from it (buildable); without it the source itself.
	stamped string
	list    list
	// epoch is SOURCE_DATE_EPOCH.
	epoch string
	// packages returns files of Debian packages, and when they were fetched.
	packages func(ctx context.Context, architecture string, names []string) ([]string, time.Time, error)
	// tell is told what is being done.
	tell func(title string, step func() error) error
}

// built is an image of all its platforms.
type built struct {
	name string
	stamp
	// archive and document are files; digest is the index's.
	archive, document, digest string
	size                      int64
	platforms                 []builtPlatform
	// fetched is when its Debian packages were fetched; zero if there are none.
	fetched time.Time
}

// builtPlatform is the image of one platform. size is what a registry keeps.
type builtPlatform struct {
	name, digest string
	size         int64
}

// build makes the archive and the SPDX document of an image.
func (b builder) build(ctx context.Context, r recipe) (built, error) {
	done := built{name: r.Name, archive: filepath.Join(b.out, r.Name+".tar"), document: filepath.Join(b.out, r.Name+".spdx.json")}
	architectures, err := r.architectures()
	if err != nil {
		return built{}, err
	}
	about := spdx.Image{Name: r.Name, Source: b.list.Source}
	var images []v1.Image
	for _, architecture := range architectures {
		err := b.tell(r.Name+" for linux/"+architecture, func() error {
			one, platform, err := b.platform(ctx, r, architecture, &done)
			if err != nil {
				return fmt.Errorf("build image %s for linux/%s: %w", r.Name, architecture, err)
			}
			images, about.Platforms = append(images, one), append(about.Platforms, platform)
			return nil
		})
		if err != nil {
			return built{}, err
		}
	}
	index, err := image.Index(images, b.labels(r, done.stamp))
	if err != nil {
		return built{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return built{}, fmt.Errorf("sum image %s: %w", r.Name, err)
	}
	done.digest = digest.String()
	reference := b.list.Repository + "/" + r.Name + ":" + done.tag()
	if err := image.WriteArchive(done.archive, index, reference, done.tag()); err != nil {
		return built{}, err
	}
	info, err := os.Stat(done.archive)
	if err != nil {
		return built{}, fmt.Errorf("look at archive: %w", err)
	}
	done.size = info.Size()
	about.Version, about.Digest, about.Created = done.version, done.digest, done.created
	document, err := spdx.Document(about)
	if err != nil {
		return built{}, err
	}
	if err := os.WriteFile(done.document, document, 0o644); err != nil {
		return built{}, fmt.Errorf("write SPDX document: %w", err)
	}
	return done, nil
}

// platform makes the image of one platform, and what is to be said of it.
func (b builder) platform(ctx context.Context, r recipe, architecture string, done *built) (v1.Image, spdx.Platform, error) {
	about := spdx.Platform{Name: "linux/" + architecture}
	refuse := func(err error) (v1.Image, spdx.Platform, error) { return nil, about, err }

	programs := image.Layer{Programs: map[string]string{}}
	var err error
	if about.Programs, err = b.programs(ctx, r, architecture, programs.Programs); err != nil {
		return refuse(err)
	}
	if done.stamp, err = b.stamp(ctx, r); err != nil {
		return refuse(err)
	}
	system := image.Layer{Links: r.Links}
	if system.Files, err = r.copied(b.source); err != nil {
		return refuse(err)
	}
	if len(r.Packages) > 0 {
		debs, fetched, err := b.packages(ctx, architecture, r.Packages)
		if err != nil {
			return refuse(err)
		}
		done.fetched = fetched
		system.Tree = filepath.Join(b.scratch, r.Name+"-"+architecture)
		if err := os.RemoveAll(system.Tree); err != nil {
			return refuse(err)
		}
		if _, err := b.run(ctx, nil, append([]string{"sh", filepath.Join(b.source, "images/unpack"), system.Tree}, debs...)...); err != nil {
			return refuse(err)
		}
		if err := complete(system.Tree); err != nil {
			return refuse(err)
		}
		if about.Packages, err = b.describe(ctx, debs); err != nil {
			return refuse(err)
		}
	}
	// What changes least is below, so that nodes and registries have it once for many versions.
	layers := []image.Layer{system}
	if len(r.Programs) > 0 {
		layers = append(layers, programs)
	}
	one, err := image.Pack(image.Content{
		Layers: layers, Platform: v1.Platform{OS: "linux", Architecture: architecture}, Created: done.created,
		Config: v1.Config{
			Entrypoint: r.Entrypoint, User: r.User, WorkingDir: "/", Labels: b.labels(r, done.stamp),
			Env: []string{searchPath},
		},
	}, b.scratch)
	if err != nil {
		return refuse(err)
	}
	digest, err := one.Digest()
	if err != nil {
		return refuse(err)
	}
	size, err := sizeOf(one)
	if err != nil {
		return refuse(err)
	}
	about.Digest = digest.String()
	done.platforms = append(done.platforms, builtPlatform{name: about.Name, digest: about.Digest, size: size})
	return one, about, nil
}

// searchPath is the environment of an image's programs.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// places is where programs of ours are in an image.
const places = "usr/local/bin"

// programs builds an image's programs, and says where each goes.
func (b builder) programs(ctx context.Context, r recipe, architecture string, into map[string]string) ([]spdx.Program, error) {
	if len(r.Programs) == 0 {
		return nil, nil
	}
	dir, err := b.compile(ctx, architecture, r.Programs)
	if err != nil {
		return nil, err
	}
	var about []spdx.Program
	for _, p := range r.Programs {
		file := filepath.Join(dir, path.Base(p))
		if err := static(file, architecture); err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read what %s is made of: %w", p, err)
		}
		sum, err := sumOf(file)
		if err != nil {
			return nil, err
		}
		place := path.Join(places, path.Base(p))
		into[place] = file
		about = append(about, spdx.Program{Name: "/" + place, SHA256: sum, Info: info})
	}
	return about, nil
}

// stamp is the source's version. An image without programs of ours has that of the source which lists it.
func (b builder) stamp(ctx context.Context, r recipe) (stamp, error) {
	const whichever = "amd64"
	for _, other := range append([]recipe{r}, b.list.Images...) {
		if len(other.Programs) > 0 {
			dir, err := b.compile(ctx, whichever, other.Programs[:1])
			if err != nil {
				return stamp{}, err
			}
			return stampOf(filepath.Join(dir, path.Base(other.Programs[0])), b.epoch)
		}
	}
	return stamp{}, errors.New("read version: no image has a program")
}

// compile builds programs as make build does, whatever the environment says of Go.
func (b builder) compile(ctx context.Context, architecture string, programs []string) (string, error) {
	dir := filepath.Join(cmp.Or(b.compiled, b.scratch), "bin-"+architecture)
	argv := []string{"go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", "-s -w", "-o", dir + "/"}
	for _, p := range programs {
		argv = append(argv, "./"+p)
	}
	environment := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-trimpath", "GOWORK=off", "GOEXPERIMENT=",
	}
	_, err := b.runIn(ctx, cmp.Or(b.stamped, b.source), environment, argv...)
	return dir, err
}

// describe reads what packages say of themselves.
func (b builder) describe(ctx context.Context, debs []string) ([]spdx.Package, error) {
	var out []spdx.Package
	for _, deb := range debs {
		text, err := b.run(ctx, nil, "dpkg-deb", "-f", deb, "Package", "Version", "Architecture", "Source", "Homepage")
		if err != nil {
			return nil, err
		}
		fields := map[string]string{}
		for line := range strings.Lines(text) {
			if key, value, found := strings.Cut(line, ":"); found {
				fields[key] = strings.TrimSpace(value)
			}
		}
		sum, err := sumOf(deb)
		if err != nil {
			return nil, err
		}
		out = append(out, spdx.Package{
			Name: fields["Package"], Version: fields["Version"], Architecture: fields["Architecture"], Source: fields["Source"],
			Homepage: fields["Homepage"], Suite: parts.DebianDistribution, SHA256: sum,
		})
	}
	return out, nil
}

// labels are OCI's own (image-spec, annotations.md).
func (b builder) labels(r recipe, s stamp) map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title": r.Title, prefix + "description": r.Description, prefix + "licenses": r.Licenses, prefix + "vendor": "Atoll",
		prefix + "source": b.list.Source, prefix + "url": b.list.Source, prefix + "documentation": b.list.Source + "/tree/main/docs",
		prefix + "version": s.version, prefix + "created": s.created.Format(time.RFC3339),
	}
	if s.revision != "" {
		labels[prefix+"revision"] = s.revision
	}
	return labels
}

// run runs a program in the source tree.
func (b builder) run(ctx context.Context, environment []string, argv ...string) (string, error) {
	return b.runIn(ctx, b.source, environment, argv...)
}

func (b builder) runIn(ctx context.Context, dir string, environment []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // go, git and dpkg-deb, on directories that whoever runs this names
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w\n%s", path.Base(argv[0]), err, strings.TrimSpace(failure.String()))
	}
	return string(text), nil
}

func sumOf(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("sum %s: %w", file, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// sizeOf is what an image takes in a registry: its layers, compressed, and its configuration.
func sizeOf(one v1.Image) (int64, error) {
	manifest, err := one.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}
