package progress

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPlainLines(t *testing.T) {
	var out bytes.Buffer
	steps := New(&out, 2)
	clock := time.Unix(0, 0)
	steps.now = func() time.Time { return clock }
	err := steps.Do("build", func() error {
		steps.Note("the first time takes %s", "long")
		clock = clock.Add(1500 * time.Millisecond)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := steps.Do("start", func() error { clock = clock.Add(61 * time.Second); return broken }); !errors.Is(err, broken) {
		t.Errorf("error is %v, want the step's own", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"[ 1/2] build: the first time takes long",
		"[ 1/2] build" + strings.Repeat(" ", width-len("build")) + "     1.5s",
		"[ 2/2] start" + strings.Repeat(" ", width-len("start")) + "     1m1s  failed",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), strings.Join(want, "\n"))
	}
}

func TestTerminalRedrawsOneLine(t *testing.T) {
	var out bytes.Buffer
	steps := New(&out, 1)
	steps.terminal = true
	if err := steps.Do("build", func() error { steps.Note("compiling"); return nil }); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "\r\x1b[2K[ 1/1] build") {
		t.Errorf("printed %q, want a redrawn line that ends once", out.String())
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Millisecond:   "0.0s",
		1234 * time.Millisecond: "1.2s",
		90 * time.Second:        "1m30s",
	} {
		if got := Round(d); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
}
