package central

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Programs says where OVN's and Open vSwitch's are.
type Programs struct {
	// Path has the names of programs as exec.LookPath finds them, or a function of the tests' prefix.
	Path func(program string) string
	// Schemas is the directory of ovn-nb.ovsschema and ovn-sb.ovsschema.
	Schemas string
}

// files are a member's database and its draft.
type files struct {
	programs Programs
	kind     Kind
	dir      string
}

func (f files) database() string { return filepath.Join(f.dir, "ovn"+string(f.kind)+"_db.db") }
func (f files) draft() string    { return f.database() + ".draft" }
func (f files) schema() string {
	return filepath.Join(f.programs.Schemas, "ovn-"+string(f.kind)+".ovsschema")
}

// header reads what a file says of itself.
func (f files) header(ctx context.Context, path string) (Header, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Header{}, nil
	} else if err != nil {
		return Header{}, fmt.Errorf("look for database file: %w", err)
	}
	name, err := f.tool(ctx, "db-name", path)
	if err != nil || name != f.kind.Schema() {
		return Header{Form: Foreign}, ctx.Err()
	}
	h := Header{Form: Clustered}
	for command, into := range map[string]*string{"db-cid": &h.ClusterID, "db-sid": &h.ServerID, "db-local-address": &h.Address} {
		if *into, err = f.tool(ctx, command, path); err != nil {
			return Header{Form: Foreign}, ctx.Err()
		}
	}
	return h, nil
}

// create makes the draft of a new cluster.
func (f files) create(ctx context.Context, raft string, timer time.Duration) error {
	return f.whole(func(path string) error {
		_, err := f.tool(ctx, fmt.Sprintf("--election-timer=%d", timer.Milliseconds()), "create-cluster", path, f.schema(), raft)
		return err
	})
}

// join makes a draft that joins a cluster by its id.
func (f files) join(ctx context.Context, cluster, raft string, others []string) error {
	return f.whole(func(path string) error {
		_, err := f.tool(ctx, append([]string{"--cid=" + cluster, "join-cluster", path, f.kind.Schema(), raft}, others...)...)
		return err
	})
}

// whole makes the draft all at once. What an earlier try left of it is nothing that anybody has opened.
func (f files) whole(write func(path string) error) error {
	partial := fmt.Sprintf("%s.partial-%d", f.draft(), time.Now().UnixNano())
	if err := write(partial); err != nil {
		return err
	}
	return f.rename(partial, f.draft())
}

// rename moves a file to a name that nobody has, lastingly.
func (f files) rename(from, to string) error {
	// Link, unlike rename, refuses a name that is taken.
	if err := os.Link(from, to); err != nil {
		return fmt.Errorf("move database file: %w", err)
	}
	if err := os.Remove(from); err != nil {
		return fmt.Errorf("move database file: %w", err)
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	return nil
}

// moveAside gives a file a name under which it is kept.
func (f files) moveAside(path string) (string, error) {
	to := path + ".moved-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	return to, f.rename(path, to)
}

func (f files) tool(ctx context.Context, args ...string) (string, error) {
	return f.run(ctx, "ovsdb-tool", args...)
}

// run runs a program and returns what it prints, without the space around it.
func (f files) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.programs.Path(program), args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
