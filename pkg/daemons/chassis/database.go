package chassis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const databaseDaemon = "ovsdb-server"

// databaseName is the database's name in its schema.
const databaseName = "Open_vSwitch"

// Database is the node's Open vSwitch database with its server. It holds the bridges, the pods' ports and OVN's settings of the node.
type Database struct {
	Directories Directories
	// File is the database's, in a directory of the node's own. Schema is the file of the schema that it is to have.
	File, Schema string
}

// Run serves the database until ctx ends.
func (d Database) Run(ctx context.Context, log *slog.Logger) error {
	if err := d.Directories.make(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.File), 0o755); err != nil {
		return fmt.Errorf("make directory of the database: %w", err)
	}
	return daemon{
		name: databaseDaemon, dirs: d.Directories, log: log,
		arguments: []string{"--remote=punix:" + d.Directories.database(), d.File},
		prepare:   func(ctx context.Context) error { return d.prepare(ctx, log) },
		started: func(ctx context.Context) error {
			_, err := d.Directories.vsctl(ctx, "init") // the one row of settings
			return err
		},
		exit: []string{"exit"},
	}.keep(ctx)
}

// state is what a database's file is good for.
type state int

const (
	missing state = iota
	// usable: as it should be. outdated: of another version of the schema.
	usable
	outdated
	// damaged: the server reads it up to a record that it cannot read, and forgets the rest.
	damaged
	// broken: the server does not read it at all.
	broken
)

// prepare makes the file one that the server can use.
func (d Database) prepare(ctx context.Context, log *slog.Logger) error {
	is, reason, err := d.look(ctx)
	if err != nil {
		return err
	}
	switch is {
	case missing:
		log.Info("there is no database yet: it is made", "file", d.File)
		return d.create(ctx)
	case broken:
		aside, err := d.rename("broken")
		if err != nil {
			return err
		}
		log.Error("the database cannot be read: it was moved aside, and an empty one is made. Pods of this node have "+
			"no network until the agent and ovn-controller have written what was in it", "file", d.File, "moved", aside, "error", reason)
		return d.create(ctx)
	case damaged:
		aside, err := d.keepCopy("damaged")
		if err != nil {
			return err
		}
		log.Error("the database is damaged: a copy was kept, and the server goes on with what is before the damage. What is "+
			"missing comes back from the agent and ovn-controller", "file", d.File, "copy", aside, "error", reason)
		return nil
	case outdated:
		return d.convert(ctx, log)
	default:
		return nil
	}
}

// look examines the file. An error means that it cannot be told: a file that the system does not give us is nobody's to replace.
func (d Database) look(ctx context.Context) (is state, reason, err error) {
	file, err := os.Open(d.File)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil, nil
	}
	if err == nil {
		_, err = io.Copy(io.Discard, file)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return missing, nil, fmt.Errorf("read database: %w", err)
	}
	name, reason := d.tool(ctx, "db-name", d.File)
	if err := ctx.Err(); err != nil {
		return missing, nil, err
	}
	if reason == nil && name != databaseName {
		reason = fmt.Errorf("it is a database of %s", name)
	}
	if reason != nil {
		return broken, reason, nil
	}
	if _, reason = d.tool(ctx, "show-log", d.File); reason != nil {
		return damaged, reason, ctx.Err()
	}
	answer, err := d.tool(ctx, "needs-conversion", d.File, d.Schema)
	if err != nil {
		return missing, nil, err
	}
	if answer == "yes" {
		return outdated, nil, nil
	}
	return usable, nil, nil
}

// create makes an empty database. It is there as a whole or not at all.
func (d Database) create(ctx context.Context) error {
	fresh := d.File + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was interrupted here, and empty
		return fmt.Errorf("clear away unfinished database: %w", err)
	}
	if _, err := d.tool(ctx, "create", fresh, d.Schema); err != nil {
		return err
	}
	if err := os.Rename(fresh, d.File); err != nil {
		return fmt.Errorf("put new database in place: %w", err)
	}
	return nil
}

// convert gives the database the wanted schema, and keeps it as it was.
func (d Database) convert(ctx context.Context, log *slog.Logger) error {
	before, err := d.keepCopy("before-conversion")
	if err != nil {
		return err
	}
	log.Info("the database has another version of the schema: it is converted", "file", d.File, "copy", before)
	_, err = d.tool(ctx, "convert", d.File, d.Schema)
	return err
}

func (d Database) tool(ctx context.Context, words ...string) (string, error) {
	return d.Directories.run(ctx, "ovsdb-tool", words...)
}

func (d Database) rename(why string) (string, error) {
	aside := d.File + "." + why + "-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Rename(d.File, aside); err != nil {
		return "", fmt.Errorf("move database aside: %w", err)
	}
	return aside, nil
}

// keepCopy keeps the file as it is under a name that tells its content: however often the same one is met, it is kept once.
func (d Database) keepCopy(why string) (string, error) {
	text, err := os.ReadFile(d.File)
	if err != nil {
		return "", fmt.Errorf("keep a copy of the database: %w", err)
	}
	sum := sha256.Sum256(text)
	aside := d.File + "." + why + "-" + hex.EncodeToString(sum[:8])
	if err := os.WriteFile(aside, text, 0o600); err != nil {
		return "", fmt.Errorf("keep a copy of the database: %w", err)
	}
	return aside, nil
}
