package central

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// BackupOptions say what is backed up, and where to.
type BackupOptions struct {
	Kinds []Kind
	// Dir is where the files are kept, Keep how many of each database.
	Dir  string
	Keep int
	// Certificates has tls.crt, tls.key and ca.crt of a client with full rights.
	Certificates string
	Programs     Programs
	Log          *slog.Logger
}

// backupTime is how files are named, so that they sort by age.
const backupTime = "20060102T150405.000Z"

// backupPrefix is of all backups of a database.
func backupPrefix(kind Kind) string { return "ovn" + string(kind) + "_db-" }

// Backup writes a file of each database, as one of a single server (ovsdb(5)), and removes the oldest beyond Keep. It asks a
// follower if there is one that follows. A file that is not whole never gets its name.
func Backup(ctx context.Context, store Store, o BackupOptions) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	var problems []error
	for _, kind := range o.Kinds {
		if err := o.backup(ctx, store, kind); err != nil {
			problems = append(problems, fmt.Errorf("back up %s: %w", kind, err))
			continue
		}
		if err := o.prune(kind); err != nil {
			problems = append(problems, fmt.Errorf("back up %s: %w", kind, err))
		}
	}
	return errors.Join(problems...)
}

func (o BackupOptions) backup(ctx context.Context, store Store, kind Kind) error {
	if _, err := awaitIdentity(ctx, o.Certificates, Northbound,
		func(err error) { o.Log.InfoContext(ctx, "waiting for the certificate", "why", err) }); err != nil {
		return err
	}
	record, err := store.Get(ctx, kind)
	if err != nil {
		return err
	}
	server, err := o.server(ctx, kind, record)
	if err != nil {
		return err
	}
	path := filepath.Join(o.Dir, backupPrefix(kind)+time.Now().UTC().Format(backupTime)+".db")
	partial := path + ".partial"
	defer os.Remove(partial)
	f := files{programs: o.Programs, kind: kind}
	text, err := f.run(ctx, "ovsdb-client", append(o.tls(), "--timeout=600", "backup", server, kind.Schema())...)
	if err != nil {
		return err
	}
	if err := writeDurably(partial, text+"\n"); err != nil {
		return err
	}
	// It is read as whoever restores it will.
	if name, err := f.tool(ctx, "db-name", partial); err != nil || name != kind.Schema() {
		return fmt.Errorf("read what was written: it is %q: %w", name, err)
	}
	if _, err := f.tool(ctx, "db-version", partial); err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("name backup: %w", err)
	}
	o.Log.InfoContext(ctx, "backed up", "database", kind, "from", server, "to", path, "bytes", len(text)+1)
	return nil
}

func writeDurably(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func (o BackupOptions) tls() []string {
	in := func(name string) string { return filepath.Join(o.Certificates, name) }
	return []string{"--private-key=" + in(keyFile), "--certificate=" + in(certificateFile), "--ca-cert=" + in(caFile)}
}

// server chooses a follower that is connected to its cluster, or else the leader.
func (o BackupOptions) server(ctx context.Context, kind Kind, record Database) (string, error) {
	port := kind.ClientPort()
	if kind == Southbound {
		port = FullPort
	}
	if len(record.Members) == 0 {
		return "", fmt.Errorf("ConfigMap %s names no server of it", RecordName)
	}
	question := fmt.Sprintf(
		`["_Server",{"op":"select","table":"Database","where":[["name","==",%q],["connected","==",true]],"columns":["leader"]}]`, kind.Schema())
	leader := ""
	var problems []error
	for _, m := range record.Members {
		server := Remote(m.Address, port)
		answer, err := files{programs: o.Programs, kind: kind}.run(ctx,
			"ovsdb-client", append(o.tls(), "--timeout=10", "query", server, question)...)
		switch {
		case err != nil:
			problems = append(problems, err)
		case strings.Contains(answer, `"leader":false`):
			return server, nil
		case strings.Contains(answer, `"leader":true`):
			leader = server
		default:
			problems = append(problems, fmt.Errorf("%s is not connected to its cluster", server))
		}
	}
	if leader == "" {
		return "", fmt.Errorf("no server answers: %w", errors.Join(problems...))
	}
	return leader, nil
}

// prune removes the oldest backups of a database.
func (o BackupOptions) prune(kind Kind) error {
	all, err := filepath.Glob(filepath.Join(o.Dir, backupPrefix(kind)+"*.db"))
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	slices.Sort(all)
	for _, path := range all[:max(0, len(all)-o.Keep)] {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove old backup: %w", err)
		}
	}
	return nil
}
