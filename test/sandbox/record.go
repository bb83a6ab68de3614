package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// record is what is kept of a sandbox: written before its first process starts, marked complete when Up is done.
type record struct {
	// ID is the name and a random part. Every process of the sandbox carries it in its environment.
	ID       string      `json:"id"`
	Options  Options     `json:"options"`
	Parts    parts.Parts `json:"parts"`
	Complete bool        `json:"complete"`
}

// idBytes is the length of the random part of a sandbox's identity.
const idBytes = 16

func newRecord(opts Options) record {
	random := make([]byte, idBytes)
	_, _ = rand.Read(random) // never fails
	return record{ID: opts.Name + "." + hex.EncodeToString(random), Options: opts}
}

func (r record) layout() layout { return layout{r.Options.State} }

// places lists the control plane, the outside and the nodes.
func (r record) places() []string {
	return append([]string{Central, Outside}, r.nodes()...)
}

func (r record) nodes() []string {
	var names []string
	for _, n := range nodesUpTo(r.Options.Nodes) {
		names = append(names, n.name)
	}
	return names
}

// save writes the record so that a reader sees the old one or the new one.
func (r record) save() error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	path := r.layout().record()
	partial := path + ".partial"
	if err := os.WriteFile(partial, data, 0o600); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func loadRecord(state string) (record, error) {
	var r record
	data, err := os.ReadFile(layout{state}.record())
	if err != nil {
		return r, fmt.Errorf("read record of sandbox: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("decode record of sandbox in %s: %w", filepath.Dir(layout{state}.record()), err)
	}
	return r, nil
}
