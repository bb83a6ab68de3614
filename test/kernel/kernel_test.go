package main

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/test/ovn"
)

func TestJobSurvivesItsFile(t *testing.T) {
	wanted, err := thisJob([]string{"sh", "-c", "echo \"'$x'\n\""})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(wanted.Path) || wanted.Argv[0] != "sh" || !filepath.IsAbs(wanted.Dir) {
		t.Errorf("job is %+v", wanted)
	}
	if last := wanted.Env[len(wanted.Env)-1]; last != ovn.DatapathVariable+"="+ovn.SystemDatapath {
		t.Errorf("the datapath is %s", last)
	}
	file := filepath.Join(t.TempDir(), "job")
	if err := wanted.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := readJob(file)
	if diff := cmp.Diff(wanted, got); diff != "" || err != nil {
		t.Errorf("error %v %s", err, diff)
	}
	if _, err := thisJob([]string{"no-such-program"}); err == nil {
		t.Error("a program that does not exist is a job")
	}
}

func TestOutcome(t *testing.T) {
	for _, test := range []struct {
		name, told string
		status     int
		problem    string
	}{
		{"well", `{"Status":0}` + "\n", 0, ""},
		{"a test failed", `{"Status":2}` + "\n", 2, ""},
		{"the kernel crashed", "", 0, "ended before its job"},
		{"no root", `{"Status":0,"Problem":"mount overlay"}`, 0, "inside the kernel: mount overlay"},
		{"cut off", `{"Sta`, 0, "read outcome"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, err := parseOutcome(test.told)
			if status != test.status || (err == nil) != (test.problem == "") {
				t.Errorf("status %d, error %v", status, err)
			}
			if err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("error %v does not say %q", err, test.problem)
			}
		})
	}
}

func TestConsole(t *testing.T) {
	var out bytes.Buffer
	c := console{out: &out}
	for part := range slices.Chunk([]byte("\r\nWARNING: at net/core\r\nreboot: Power down\nlast"), 7) {
		if n, err := c.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "kernel: WARNING: at net/core\n"; got != want {
		t.Errorf("shows %q, want %q", got, want)
	}
}

// A kernel's init gets what it needs to find the job, and nothing that the kernel would keep for itself.
func TestArguments(t *testing.T) {
	arguments := machine{memory: "1G", dir: "/tmp/x"}.arguments("/bin/init", "/tmp/x/job.json")
	dashes := slices.Index(arguments, "--")
	if dashes < 0 || !slices.Equal(arguments[dashes+1:], []string{"-inside=/tmp/x/job.json"}) {
		t.Errorf("arguments of init in %q", arguments)
	}
	for _, want := range []string{"ro", "rootfstype=hostfs", "init=/bin/init", "mem=1G"} {
		if !slices.Contains(arguments[:dashes], want) {
			t.Errorf("no %s in %q", want, arguments)
		}
	}
}

func TestLinesShowAll(t *testing.T) {
	var first, second bytes.Buffer
	l, err := openLines(&first, &second)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<20)
	for i, text := range []string{long, "short"} {
		if _, err := io.WriteString(l.guest[i], text); err != nil {
			t.Fatal(err)
		}
	}
	l.started()
	if err := l.drain(); err != nil || first.String() != long || second.String() != "short" {
		t.Errorf("shown are %d and %d bytes, error %v", first.Len(), second.Len(), err)
	}
}
