package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/atoll-net/atoll/pkg/process/child"
)

// command is a program with what it is given.
type command struct {
	path string
	args []string
	// log is the file that takes its output.
	log string
}

// process is a child that has been started.
type process struct {
	command
	*child.Child
}

// start runs c until ctx ends or it is killed.
func start(ctx context.Context, c command) (*process, error) {
	out, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Stdout, cmd.Stderr = out, out
	started, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &process{c, started}, nil
}

// ended says why a process that should still run does not.
func (p *process) ended() error {
	return fmt.Errorf("run %s: it ended early: %w\n%s", filepath.Base(p.path), p.Ended(), p.logTail())
}

// logTail is the end of what the process printed.
func (p *process) logTail() []byte {
	const lines = 20
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	text = bytes.TrimRight(text, "\n")
	from := len(text)
	for range lines {
		if from = bytes.LastIndexByte(text[:from], '\n'); from < 0 {
			return text
		}
	}
	return text[from+1:]
}
