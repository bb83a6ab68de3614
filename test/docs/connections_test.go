package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/daemons/central"
)

var (
	// manifestPort is a port that a manifest has a program listen at: its own port, a port of its address, or the port that a Service leads
	// to.
	manifestPort = regexp.MustCompile(`(?:containerPort: |127\.0\.0\.1:|targetPort: |host: 127\.0\.0\.1, port: )(\d+)`)
	// flagPort is the port of an address that a program listens at unless it is told another.
	flagPort = regexp.MustCompile(`"127\.0\.0\.1:(\d+)", "[^"]*/metrics`)
	// signer is one that the controller may sign for.
	signer = regexp.MustCompile(`atoll\.dev/(?:ovn-[a-z]+|agent|inspect(?:-server)?)\b`)
	port   = regexp.MustCompile(`\b\d{4,5}\b`)
)

// TestConnectionsAreListed: each port that manifests and flags name is in the tables of all connections, and each port there is one of
// these; each signer has a
// column of who gets what.
func TestConnectionsAreListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/design/certificates.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(text), "\n## Every connection\n")
	tables, _, ended := strings.Cut(tables, "\n## ")
	if !found || !ended {
		t.Fatal("there is no section of every connection")
	}
	// Those of OVN's databases, and that of Geneve, are in no manifest.
	known := map[string]string{"6081": "Geneve (RFC 8926)", fmt.Sprint(central.FullPort): "central.FullPort"}
	for _, kind := range []central.Kind{central.Northbound, central.Southbound} {
		known[fmt.Sprint(kind.ClientPort())], known[fmt.Sprint(kind.RaftPort())] = "database "+string(kind), "raft of database "+string(kind)
		known[fmt.Sprint(kind.RelayPort())] = "relays of database " + string(kind)
	}
	signers := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(root, "dist"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		// The sandbox and kind have networks of their own, and Prometheus listens at its own.
		for _, other := range []string{"/sandbox/", "/kind/", "/monitoring/"} {
			if strings.Contains(path, other) {
				return nil
			}
		}
		text, err := os.ReadFile(path)
		for _, found := range manifestPort.FindAllSubmatch(text, -1) {
			known[string(found[1])] = path
		}
		for _, found := range signer.FindAll(text, -1) {
			signers[string(found)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mains, err := filepath.Glob(filepath.Join(root, "cmd/*/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range mains {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range flagPort.FindAllSubmatch(text, -1) {
			known[string(found[1])] = path
		}
	}
	if len(known) < 17 || len(signers) < 6 {
		t.Fatalf("only the ports %v and the signers %v were found", known, signers)
	}
	listed := map[string]bool{}
	for _, number := range port.FindAllString(tables, -1) {
		listed[number] = true
		if known[number] == "" {
			t.Errorf("the tables have port %s, which neither manifests nor flags have", number)
		}
	}
	for number, of := range known {
		if !listed[number] {
			t.Errorf("the tables lack port %s of %s", number, of)
		}
	}
	for name := range signers {
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("signer %s has no column of who gets what", name)
		}
	}
}
