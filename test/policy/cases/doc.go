// Package cases holds what a test of network policy is about: a small cluster and packets in it.
//
// A case is a file that a person can read: Kubernetes' own objects, and for each packet the verdict that the API asks
// for. All cases share the Networks of this package, so that a case need not repeat them: default, red and blue, of which
// the last two have the same addresses.
package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Case is a cluster and packets in it.
type Case struct {
	// About says what the case shows, and where the API says so.
	About string `json:"about,omitempty"`
	oracle.Cluster
	Packets []Packet `json:"packets"`
}

// Packet is a packet and what must become of it.
type Packet struct {
	oracle.Packet
	// Dial is what the source dials: the address of a Service behind which To is alone. The zero value: To itself.
	Dial netip.AddrPort `json:"dial,omitzero"`
	// Verdict is the oracle's, as text.
	Verdict string `json:"verdict"`
}

// Read reads a case from a file. A field that nobody knows is an error.
func Read(path string) (Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	var c Case
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return Case{}, fmt.Errorf("read case %s: %w", path, err)
	}
	c.Nodes = Nodes()
	return c, nil
}

// Text is the case as a file.
func (c Case) Text() ([]byte, error) {
	// Those are the same in all.
	c.Nodes = nil
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write case: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("write case: %w", err)
	}
	out, err := yaml.Marshal(trim(tree))
	if err != nil {
		return nil, fmt.Errorf("write case: %w", err)
	}
	return out, nil
}

// trim takes out what Kubernetes' types write though it was not set. An empty selector stays: it selects everything.
func trim(tree any) any {
	switch tree := tree.(type) {
	case []any:
		for i := range tree {
			tree[i] = trim(tree[i])
		}
	case map[string]any:
		for key, value := range tree {
			value = trim(value)
			tree[key] = value
			fields, isMap := value.(map[string]any)
			switch {
			case value == nil:
				delete(tree, key)
			case isMap && len(fields) == 0 && (key == "status" || key == "resources" || key == "metadata"):
				delete(tree, key)
			}
		}
	}
	return tree
}
