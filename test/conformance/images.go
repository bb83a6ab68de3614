package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// repository is where the tests look for all their images (KUBE_TEST_REPO): a tag of one repository stands for each image.
// There is no such registry; an image that is not on the nodes cannot be had.
const repository = "atoll.dev/e2e"

// repositoryVariable tells upstream's test binary that.
const repositoryVariable = "KUBE_TEST_REPO=" + repository

// packing is part of the archive's name: it changes with how an image is made of its recipe.
const packing = 3

// recipe says what an image of upstream's is made of here.
type recipe struct {
	// tag is a part of the tag that names the image and its version, as the binary lists it.
	tag string
	// also are names under which other tests look for the image.
	also []string
	// tree: with a file system of Debian packages.
	tree bool
	// programs are copied into the root, from where they are.
	programs []string
	// files are copied to the key from the value.
	files map[string]string
	// links from the key to the value.
	links   map[string]string
	command v1.Config
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// recipes of the images that the listed specs use. Upstream's are of Alpine or Debian with the same programs in them. sctp is
// the program that stands before agnhost; empty where none is needed.
func recipes(e parts.E2E, applets []string, sctp string) []recipe {
	agnhost := func(file string) string { return filepath.Join(e.Programs, file) }
	programs := map[string]string{"agnhost": agnhost("agnhost")}
	if sctp != "" {
		programs = map[string]string{"agnhost": sctp, "upstream/agnhost": agnhost("agnhost")}
	}
	environment := []string{searchPath}
	links := map[string]string{}
	for _, applet := range applets {
		if applet != "busybox" {
			links["bin/"+applet] = "busybox"
		}
	}
	return []recipe{
		{
			tag: "-agnhost-2-63-0-", also: []string{clusterPolicyImage}, tree: true,
			programs: []string{agnhost("localhost.crt"), agnhost("localhost.key")},
			files:    programs,
			links:    map[string]string{"agnhost-2": "agnhost"},
			command:  v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Env: environment},
		},
		{tag: "-glibc-dns-testing-2-0-0-", tree: true, command: v1.Config{Cmd: []string{"bash"}, Env: environment}},
		{
			tag: "-nginx-1-15-4-", tree: true,
			command: v1.Config{Cmd: []string{"nginx", "-g", "daemon off;"}, Env: environment},
		},
		{
			tag: "-busybox-1-37-0-1-", programs: []string{filepath.Join(e.Tree, "usr/bin/busybox")}, links: links,
			command: v1.Config{Cmd: []string{"sh"}, Env: environment},
		},
		{tag: "-pause-3-10-2-", programs: []string{e.Pause}, command: v1.Config{Entrypoint: []string{"/pause"}, Env: environment}},
	}
}

// archive packs the images into one file, which is kept in the cache, and returns it with the images' names. source is the
// source tree.
func archive(ctx context.Context, e parts.E2E, source, cache string) (path string, references []string, err error) {
	sctp, err := standIn(ctx, source, cache)
	if err != nil {
		return "", nil, err
	}
	listed, err := upstream(ctx, e, "--list-images")
	if err != nil {
		return "", nil, err
	}
	applets, err := exec.CommandContext(ctx, filepath.Join(e.Tree, "usr/bin/busybox"), "--list").Output()
	if err != nil {
		return "", nil, fmt.Errorf("list what busybox can do: %w", err)
	}
	list := recipes(e, strings.Fields(string(applets)), sctp)
	tags := make([][]name.Tag, len(list))
	for i, r := range list {
		if tags[i], err = tagsOf(listed, r); err != nil {
			return "", nil, err
		}
		for _, tag := range tags[i] {
			references = append(references, tag.Name())
		}
	}
	// The programs and the tree are in the cache, under names that change with their content.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %+v %s %+v %q %q", packing, list, e.Tree, completed, left, references))
	path = filepath.Join(cache, "images", fmt.Sprintf("e2e-%x.tar", sum[:6]))
	if _, err := os.Stat(path); err == nil {
		return path, references, nil
	}
	return path, references, write(path, e, list, tags)
}

// write packs the images. The file appears complete or not at all.
func write(path string, e parts.E2E, list []recipe, tags [][]name.Tag) error {
	scratch, err := os.MkdirTemp(filepath.Dir(path), ".e2e-*")
	if err != nil {
		return fmt.Errorf("make archive: %w", err)
	}
	defer os.RemoveAll(scratch)
	// The images share it, so that it is in the archive and on a node once.
	base, err := treeLayer(e.Tree, scratch)
	if err != nil {
		return err
	}
	images := map[name.Tag]v1.Image{}
	for i, r := range list {
		packed, err := pack(r, base, scratch)
		if err != nil {
			return fmt.Errorf("pack image %s: %w", tags[i][0], err)
		}
		for _, tag := range tags[i] {
			images[tag] = packed
		}
	}
	return image.WriteAll(path, images)
}

// tagsOf are an image's names.
func tagsOf(listed string, r recipe) ([]name.Tag, error) {
	first, err := tagOf(listed, r.tag)
	if err != nil {
		return nil, err
	}
	out := []name.Tag{first}
	for _, text := range r.also {
		tag, err := name.NewTag(text)
		if err != nil {
			return nil, fmt.Errorf("parse image name: %w", err)
		}
		out = append(out, tag)
	}
	return out, nil
}

// tagOf finds the name of the one image with this tag.
func tagOf(listed, part string) (name.Tag, error) {
	var found []string
	for line := range strings.Lines(listed) {
		if reference := strings.TrimSpace(line); strings.HasPrefix(reference, repository+":") && strings.Contains(reference, part) {
			found = append(found, reference)
		}
	}
	if len(found) != 1 {
		return name.Tag{}, fmt.Errorf("find image %q in the binary's list: there are %q", part, found)
	}
	tag, err := name.NewTag(found[0])
	if err != nil {
		return name.Tag{}, fmt.Errorf("parse image name: %w", err)
	}
	return tag, nil
}

// upstream asks the test binary something that takes no cluster.
func upstream(ctx context.Context, e parts.E2E, question string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(e.Programs, "e2e.test"), question)
	cmd.Env = append(os.Environ(), repositoryVariable)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run e2e.test %s: %w", question, err)
	}
	return string(out), nil
}
