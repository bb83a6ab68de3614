//go:build integration

package chassis_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
)

// TestDatabaseThatCannotBeRead: it is moved aside and said, and the node comes back when the agent has given pods their ports again.
func TestDatabaseThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.reaches(t)
	file := w.one.dir + "/conf.db"
	_ = w.one.stop(t, chassis.PartDatabase, syscall.SIGKILL)
	garbage := []byte("no database at all\n")
	if err := os.WriteFile(file, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	w.one.start(t, chassis.PartDatabase)
	w.one.serves(t, parts3()...)
	moved, err := filepath.Glob(file + ".broken-*")
	if err != nil || len(moved) != 1 {
		t.Fatalf("moved aside: %v, %v", moved, err)
	}
	if kept, err := os.ReadFile(moved[0]); err != nil || !bytes.Equal(kept, garbage) {
		t.Errorf("what was moved aside has %q, %v", kept, err)
	}
	if !strings.Contains(w.one.words(chassis.PartDatabase), moved[0]) {
		t.Errorf("nobody was told of %s", moved[0])
	}
	// The bridge is ovn-controller's, and ports are the agent's, which this test stands in for.
	eventually(t, "ovn-controller makes its bridge", func() error {
		_, err := w.one.VSCtl(t.Context(), "--no-wait", "br-exists", "br-int")
		return err
	})
	w.one.door(t)
	if _, err := w.one.VSCtl(t.Context(), "add-port", "br-int", "guest1", "--", "set", "Interface", "guest1", "external_ids:iface-id=a",
		"--", "add-port", "br-int", "guest2", "--", "set", "Interface", "guest2", "external_ids:iface-id=b"); err != nil {
		t.Fatal(err)
	}
	if err := w.one.Installed(t.Context(), w.a, w.b); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reaches b", func() error {
		if same, _ := w.during(t, 100, func() {}); same.lost > 0 {
			return fmt.Errorf("lost %+v", same)
		}
		return nil
	})
}

// TestDatabaseFiles: whatever is there, a server comes up, and nothing is lost that was in a file.
func TestDatabaseFiles(t *testing.T) {
	c := newTools(t)
	good := c.database(t, c.found.SwitchSchema)
	// A record after the damage: what the server itself would forget without a word.
	at := bytes.LastIndex(good, []byte("\nOVSDB JSON "))
	damaged := bytes.Clone(good)
	damaged[len(damaged)-4] ^= 1
	schema, err := os.ReadFile(c.found.SwitchSchema)
	if err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older.ovsschema")
	version := bytes.Replace(schema, []byte(`"version": "8.`), []byte(`"version": "7.`), 1)
	if bytes.Equal(version, schema) {
		t.Fatal("the schema has another version than this test knows")
	}
	if err := os.WriteFile(older, version, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		content []byte
		// kept is the name under which the content is found afterwards, and marked whether the server has what was in the database.
		kept   string
		marked bool
	}{
		{"none", nil, "", false},
		{"good", good, "", true},
		{"empty", []byte{}, ".broken-*", false},
		{"garbage", []byte("x\ny\n"), ".broken-*", false},
		{"of another schema", c.database(t, c.found.SouthboundSchema), ".broken-*", false},
		{"last record damaged", damaged, ".damaged-*", false},
		{"last record cut", good[:len(good)-10], ".damaged-*", false},
		{"first records only", good[:at+1], "", false},
		{"older", c.database(t, older), ".before-conversion-*", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "chassis")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			file := dir + "/conf.db"
			if test.content != nil {
				if err := os.WriteFile(file, test.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := c.machine(t, "n1", "192.0.2.1")
			m.dir = dir
			for range 2 { // the second start finds a good one, or the same damage
				m.start(t, chassis.PartDatabase)
				m.serves(t, chassis.PartDatabase)
				out, err := c.run(t, "ovs-vsctl", "--db=unix:"+dir+"/db.sock", "--no-wait", "get", "Open_vSwitch", ".", "external_ids")
				if err != nil || strings.Contains(out, "mark") != test.marked {
					t.Errorf("the server has %s, %v", out, err)
				}
				if err := m.stop(t, chassis.PartDatabase, syscall.SIGTERM); err != nil {
					t.Errorf("it ends with %v", err)
				}
			}
			if test.kept == "" {
				if aside, _ := filepath.Glob(file + ".*-*"); len(aside) > 0 {
					t.Errorf("there are %v", aside)
				}
				return
			}
			aside, err := filepath.Glob(file + test.kept)
			if err != nil || len(aside) != 1 {
				t.Fatalf("kept: %v, %v\n%s", aside, err, m.words(chassis.PartDatabase))
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, test.content) {
				t.Errorf("%s is not what was there, %v", aside[0], err)
			}
		})
	}
}

// TestOneOfAKind: a second server of a database, or a second ovs-vswitchd, says that there is one, and ends.
func TestOneOfAKind(t *testing.T) {
	c := newTools(t)
	m := c.machine(t, "n1", "192.0.2.1")
	m.start(t, chassis.PartDatabase)
	m.serves(t, chassis.PartDatabase)
	first, err := m.daemon(chassis.PartDatabase)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	running := m.runs[chassis.PartDatabase]
	delete(m.runs, chassis.PartDatabase)
	m.mu.Unlock()
	m.start(t, chassis.PartDatabase)
	second := m.runs[chassis.PartDatabase]
	if err := <-second.ended; err == nil {
		t.Error("a second server ends with success")
	}
	m.runs[chassis.PartDatabase] = running
	if said := m.words(chassis.PartDatabase); !strings.Contains(said, "already running") {
		t.Errorf("the second one said %s", said)
	}
	if now, err := m.daemon(chassis.PartDatabase); err != nil || now != first {
		t.Errorf("the server is process %d, %v, and was %d", now, err, first)
	}
	m.serves(t, chassis.PartDatabase)
}

// TestKernelWithoutTheModule: a node that cannot forward says so and ends.
func TestKernelWithoutTheModule(t *testing.T) {
	c := newTools(t)
	out, err := c.run(t, c.program, "switch", "--run-dir="+t.TempDir(), "--ovn-run-dir="+t.TempDir())
	if _, module := os.Stat("/sys/module/openvswitch"); module == nil {
		t.Skip("this kernel has the module")
	}
	if err == nil || !strings.Contains(out+err.Error(), "modprobe openvswitch") {
		t.Errorf("it ends with %v and says %s", err, out)
	}
}
