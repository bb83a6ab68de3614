package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// report tells a person what was built, and what to do with it.
func report(out io.Writer, all []built, dir string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tPLATFORM\tSIZE\tDIGEST\tFILE")
	var packages time.Time
	for _, b := range all {
		for _, p := range b.platforms {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", b.name, p.name, megabytes(p.size), short(p.digest))
		}
		fmt.Fprintf(table, "%s\tindex\t%s\t%s\t%s\n", b.name, megabytes(b.size), short(b.digest), b.archive)
		if !b.fetched.IsZero() && (packages.IsZero() || b.fetched.Before(packages)) {
			packages = b.fetched
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	const day = "2 January 2006"
	fmt.Fprintf(out, "\nversion   %s of %s\n", all[0].version, all[0].created.Format(day))
	if !packages.IsZero() {
		fmt.Fprintf(out, "packages  Debian's, fetched %s; make images FRESH=1 fetches what is newest\n", packages.Format(day))
	}
	fmt.Fprintf(out, "contents  %s\n", filepath.Join(dir, "*.spdx.json"))
	_, err := fmt.Fprintf(out, "next      make push REGISTRY=registry.example.com/atoll\n")
	return err
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }

// short is a digest as a person compares it.
func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }
