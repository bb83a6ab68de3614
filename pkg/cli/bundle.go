package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/bundle"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/process/build"
)

// bundleTimeout is how long a bundle may take by itself.
const bundleTimeout = 15 * time.Minute

type bundleOptions struct {
	kubeconfig, file, namespace string
	databases, force            bool
	timeout                     time.Duration
}

func bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive for a report of a problem, without secrets",
		Long: `Write one .tar.gz for a report of a problem: versions; what status, networks, ipam, ipam check,
topology and pods say; Atoll's objects and those that Networks are made of; Events; the logs of
Atoll's pods; reports of nodes; and dumps of OVN's databases. Its manifest.json lists what is in it,
what is cut, what is missing, and why.

The command works with any rights: what you may not read is missing. It writes nothing to the
cluster.

Secrets and ConfigMaps are not read. Values of environment variables, annotations that are not
Atoll's, and what looks like a token, a password or a private key are removed, from objects, logs
and databases. Names and addresses of tenants, namespaces, pods and nodes stay: look at the archive
before you send it to others.

Exit status: 0 the archive is written, however much is missing; 2 it is not.`,
		Example: `  atoll bundle
  atoll bundle -f problem.tar.gz --databases=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBundle(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&o.file, "file", "f", "", "where it is written (default: atoll-bundle-DATE-TIME.tar.gz in this directory)")
	f.StringVarP(&o.namespace, "namespace", "n", "atoll-system", "where Atoll's pods are")
	f.BoolVar(&o.databases, "databases", true, "dump OVN's databases, if you may read them")
	f.BoolVar(&o.force, "force", false, "replace a file that is there")
	f.DurationVar(&o.timeout, "timeout", bundleTimeout, "how long it may take")
	completedFlag(cmd, "namespace", &o.kubeconfig, namespaceNames)
	return cmd
}

// runBundle writes the archive, and says what is missing.
func runBundle(ctx context.Context, o bundleOptions, out, problems io.Writer) error {
	now := time.Now()
	if o.file == "" {
		o.file = "atoll-bundle-" + now.Format("20060102-150405") + ".tar.gz"
	}
	if _, err := os.Lstat(o.file); err == nil && !o.force {
		return thereAlready(o.file)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	note := func(string) {}
	if isTerminal(problems) {
		note = func(what string) { fmt.Fprintf(problems, "\r\x1b[2Kreading %s", what) }
		defer fmt.Fprint(problems, "\r\x1b[2K")
	}
	var manifest bundle.Manifest
	err := writeFile(o.file, o.force, func(to io.Writer) (err error) {
		manifest, err = bundle.Write(ctx, bundle.Options{
			Kubeconfig: o.kubeconfig, Namespace: o.namespace, Version: build.Version(), Now: now, Databases: o.databases, Note: note,
		}, to)
		return err
	})
	if err != nil {
		return whyNot("bundle", err)
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s: %s\n", o.file, model.Count(len(manifest.Files), "file"))
	for _, f := range manifest.Files {
		if f.Cut != "" {
			fmt.Fprintf(&lines, "cut: %s: %s\n", f.Name, f.Cut)
		}
	}
	for _, m := range manifest.Missing {
		lines.WriteString(snapshot.Printable(fmt.Sprintf("missing: %s: %s", m.What, m.Why)) + "\n")
	}
	if _, err := io.WriteString(out, lines.String()); err != nil {
		return fmt.Errorf("write what is in the bundle: %w", err)
	}
	return nil
}

func thereAlready(file string) error {
	return fmt.Errorf("bundle: %s is there already. Next: another --file, or --force to replace it", file)
}

// writeFile writes a file that only this user may read, whole or not at all. One that is there it replaces by force alone.
func writeFile(name string, force bool, write func(io.Writer) error) (err error) {
	const mine = 0o600
	var file *os.File
	if !force {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mine)
	} else {
		// Of this mode, too, and whatever the other one is: a link that leads elsewhere is replaced, not followed.
		file, err = os.CreateTemp(filepath.Dir(name), ".atoll-*")
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return thereAlready(name)
	case err != nil:
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = write(file)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write %s: %w", name, closed)
	}
	if err == nil && force {
		if err = os.Rename(file.Name(), name); err != nil {
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
