// Command release builds the images that clusters run, as images/images.yaml lists them, and pushes them. make images and make
// push call it.
//
//	release build [-fresh] [-own] [-reuse=DIR] [-images=LIST] [-out=bin/images] [-cache=DIR]
//	release source [-to=bin/.source]
//	release push -registry=REGISTRY [-tags=LIST] [-out=bin/images]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("release "+command, flag.ContinueOnError)
	flags.SetOutput(log)
	dir := flags.String("out", "bin/images", "where the archives are")
	switch command {
	case "build":
		var o options
		flags.StringVar(&o.cache, "cache", sandbox.DefaultCache, "where Debian packages are kept")
		flags.StringVar(&o.source, "source", ".", "the source tree")
		flags.BoolVar(&o.fresh, "fresh", false, "fetch Debian packages anew")
		flags.BoolVar(&o.own, "own", false, "for this machine's processor only")
		flags.StringVar(&o.reuse, "reuse", "", "directory that keeps images: those of the very same parts are not built again")
		images := flags.String("images", "", "which images, with commas between them; without it all")
		if err := flags.Parse(args); err != nil {
			return err
		}
		o.out, o.images = *dir, words(*images)
		all, err := buildAll(ctx, o, log)
		if err != nil {
			return err
		}
		if o.reuse != "" {
			_, err := fmt.Fprintf(out, "%d images were built; the others of %s were there\n", len(all), *dir)
			return err
		}
		return report(out, all, *dir)
	case "source":
		to := flags.String("to", "bin/.source", "where the clone is made, if one is needed")
		if err := flags.Parse(args); err != nil {
			return err
		}
		return tellSource(ctx, *to, out)
	case "push":
		registry := flags.String("registry", "", "where to push to, as registry.example.com/atoll")
		tags := flags.String("tags", "", "further tags, with commas between them")
		if err := flags.Parse(args); err != nil {
			return err
		}
		return push(ctx, *dir, *registry, words(*tags), out)
	}
	return fmt.Errorf("%q: there are build, source and push", command)
}

// words are those of a list with commas or spaces between them.
func words(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// options say what to build, and where.
type options struct {
	source, out, cache string
	// reuse is a directory that keeps images; empty: all are built anew.
	reuse      string
	fresh, own bool
	// images are names of images; none means all.
	images []string
}

// wanted are the images of the list that the options name.
func (o options) wanted(l list) ([]recipe, error) {
	var names []string
	var out []recipe
	for _, r := range l.Images {
		names = append(names, r.Name)
		if o.own {
			r.Platforms = []string{"own"}
		}
		if len(o.images) == 0 || slices.Contains(o.images, r.Name) {
			out = append(out, r)
		}
	}
	for _, name := range o.images {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("find image %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// buildAll builds the images that a source tree lists.
func buildAll(ctx context.Context, o options, log io.Writer) ([]built, error) {
	source, err := filepath.Abs(o.source)
	if err != nil {
		return nil, fmt.Errorf("find source: %w", err)
	}
	l, err := readList(source)
	if err != nil {
		return nil, err
	}
	recipes, err := o.wanted(l)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	scratch, err := os.MkdirTemp(o.out, ".build-*")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	if scratch, err = filepath.Abs(scratch); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	total := 0
	for _, r := range recipes {
		total += len(r.Platforms)
	}
	steps := progress.New(log, total)
	b := builder{
		source: source, out: o.out, scratch: scratch, list: l, epoch: os.Getenv("SOURCE_DATE_EPOCH"), tell: steps.Do,
		packages: func(ctx context.Context, architecture string, names []string) ([]string, time.Time, error) {
			wanted := parts.DebianPackages{Architecture: architecture, Names: names, Fresh: o.fresh}
			return parts.GatherPackages(ctx, parts.Need{Cache: o.cache}, wanted, steps.Note)
		},
	}
	if b.stamped, err = b.buildable(ctx, filepath.Join(scratch, "source")); err != nil {
		return nil, err
	}
	if o.reuse != "" {
		return b.reuse(ctx, recipes, o.reuse)
	}
	return b.buildEach(ctx, recipes)
}
