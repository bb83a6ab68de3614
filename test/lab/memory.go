package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memory is what a process holds, in units of 10^6 bytes.
type Memory struct {
	// ResidentMB is all of it; of ProportionalMB each page counts for its share, where several processes have it.
	ResidentMB     float64 `json:"residentMB"`
	ProportionalMB float64 `json:"proportionalMB"`
	// MostMB is the most that was resident since it started.
	MostMB float64 `json:"mostMB"`
}

// MemoryOf is what a process holds. (proc_pid_smaps(5), smaps_rollup; proc_pid_status(5).)
func MemoryOf(pid int) (out Memory, err error) {
	files := map[string]string{}
	for _, file := range []string{"smaps_rollup", "status"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return out, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		files[file] = string(text)
	}
	for _, value := range []struct {
		file, name string
		to         *float64
	}{{"smaps_rollup", "Rss", &out.ResidentMB}, {"smaps_rollup", "Pss", &out.ProportionalMB}, {"status", "VmHWM", &out.MostMB}} {
		if *value.to, err = megabytes(files[value.file], value.name); err != nil {
			return out, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
	}
	return out, nil
}

// megabytes is a value of a file of /proc, which has it in units of 1024 bytes.
func megabytes(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(line, name+":")
		if !found {
			continue
		}
		words := strings.Fields(value)
		if len(words) != 2 || words[1] != "kB" {
			return 0, fmt.Errorf("%s is %q", name, strings.TrimSpace(value))
		}
		n, err := strconv.ParseFloat(words[0], 64)
		return n * 1024 / 1e6, err
	}
	return 0, fmt.Errorf("there is no %s", name)
}

// FineCPUOf is how much processor time the threads have used that a process has now: what little CPUOf cannot tell.
func FineCPUOf(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("read processor time of process %d: it has no threads: %w", pid, os.ErrNotExist)
	}
	var sum time.Duration
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum, nil
}
