package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/atoll-net/atoll/test/ovn"
)

// job is what to run inside the kernel.
type job struct {
	// Path is the program's, Argv its name and its arguments, Dir its directory.
	Path string
	Argv []string
	Dir  string
	Env  []string
}

// thisJob has a program run as if it were run here, but on the kernel's datapath.
func thisJob(argv []string) (job, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return job{}, fmt.Errorf("find program: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return job{}, fmt.Errorf("find working directory: %w", err)
	}
	environment := append(os.Environ(), ovn.DatapathVariable+"="+ovn.SystemDatapath)
	return job{Path: path, Argv: argv, Dir: dir, Env: environment}, nil
}

func (j job) write(file string) error {
	data, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write job: %w", err)
	}
	return nil
}

func readJob(file string) (job, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return job{}, fmt.Errorf("read job: %w", err)
	}
	var j job
	if err := json.Unmarshal(data, &j); err != nil {
		return job{}, fmt.Errorf("read job: %w", err)
	}
	return j, nil
}

// outcome is the last that a kernel tells: the exit status of its job, or why there is none.
type outcome struct {
	Status  int
	Problem string `json:",omitempty"`
}

// parseOutcome reads what came out of a kernel for its outcome, which may be nothing.
func parseOutcome(told string) (int, error) {
	var o outcome
	if strings.TrimSpace(told) == "" {
		return 0, fmt.Errorf("the kernel ended before its job")
	}
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		return 0, fmt.Errorf("read outcome %q: %w", told, err)
	}
	if o.Problem != "" {
		return 0, fmt.Errorf("inside the kernel: %s", o.Problem)
	}
	return o.Status, nil
}
