package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what processor time was used, since the machine started, by whom.
type Usage struct {
	taken time.Time
	// all is what all programs used; stolen is what the hypervisor gave to other machines.
	all, stolen time.Duration
	// Ours is what we used, the programs that we started, and whoever else was said to take part.
	Ours time.Duration
	// Programs is that time by the programs' names. The time of an ended child counts for the parent that waited for it, under the
	// parent's name and Ended.
	Programs map[string]time.Duration
}

// Ended marks, after a program's name, the time of its children that have ended.
const Ended = ": ended children"

// Foreign is how many processors others used between two moments: other programs here, and other machines.
func (u Usage) Foreign(later Usage) (programs, machines float64) {
	span := later.taken.Sub(u.taken).Seconds()
	programs = ((later.all - u.all) - (later.Ours - u.Ours)).Seconds() / span
	return max(programs, 0), (later.stolen - u.stolen).Seconds() / span
}

// ReadUsage reads what was used until now. Beside us and our children the given processes take part, with all their
// descendants.
func ReadUsage(families ...int) (Usage, error) {
	out := Usage{taken: time.Now(), Programs: map[string]time.Duration{}}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return out, fmt.Errorf("read processor time: %w", err)
	}
	// proc_stat(5): cpu user nice system idle iowait irq softirq steal ...
	first, _, _ := strings.Cut(string(text), "\n")
	ticks, err := parseTicks(strings.Fields(first)[1:], 0, 1, 2, 5, 6)
	if err != nil {
		return out, err
	}
	out.all = ticks
	if out.stolen, err = parseTicks(strings.Fields(first)[1:], 7); err != nil {
		return out, err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return out, fmt.Errorf("list processes: %w", err)
	}
	self := strconv.Itoa(os.Getpid())
	byPID, parents, names := map[string][]string{}, map[string]string{}, map[string]string{}
	for _, path := range stats {
		name, fields, err := processStat(path)
		if err != nil {
			continue // it has ended in the meantime
		}
		pid := filepath.Base(filepath.Dir(path))
		byPID[pid], parents[pid], names[pid] = fields, fields[ppid], name
	}
	family := map[string]bool{}
	for _, pid := range families {
		family[strconv.Itoa(pid)] = true
	}
	for pid, fields := range byPID {
		if pid != self && fields[ppid] != self && !isOf(family, parents, pid) {
			continue
		}
		own, err := parseTicks(fields, utime, stime)
		if err != nil {
			return out, err
		}
		children, err := parseTicks(fields, cutime, cstime)
		if err != nil {
			return out, err
		}
		out.Ours += own + children
		out.Programs[names[pid]] += own
		out.Programs[names[pid]+Ended] += children
	}
	return out, nil
}

// isOf reports whether a process or one of its ancestors is in a family.
func isOf(family map[string]bool, parents map[string]string, pid string) bool {
	for ; pid != ""; pid = parents[pid] {
		if family[pid] {
			return true
		}
	}
	return false
}

// Meter measures who used the processors since it was started.
type Meter struct {
	start    Usage
	families []int
}

// StartMeter starts a meter. The families are those of ReadUsage.
func StartMeter(families ...int) (Meter, error) {
	start, err := ReadUsage(families...)
	return Meter{start: start, families: families}, err
}

// Others is how many processors those used who do not take part: other programs and other machines.
func (m Meter) Others() (float64, error) {
	others, _, err := m.Read()
	return others, err
}

// Read says that, and how many seconds of processor time those used who take part, by the programs' names.
func (m Meter) Read() (others float64, programs map[string]float64, err error) {
	end, err := ReadUsage(m.families...)
	if err != nil {
		return 0, nil, err
	}
	programs = map[string]float64{}
	for name, used := range end.Programs {
		if used > m.start.Programs[name] {
			programs[name] = (used - m.start.Programs[name]).Seconds()
		}
	}
	foreign, machines := m.start.Foreign(end)
	return foreign + machines, programs, nil
}

// Fields of /proc/PID/stat after the name of the program. (proc_pid_stat(5).)
const (
	ppid   = 1
	utime  = 11
	stime  = 12
	cutime = 13
	cstime = 14
)

// processStat reads the program's name, which stands in brackets and may hold anything, and the fields after it. What
// threads of the kernel work at the moment, after a stroke, is no part of their name.
func processStat(path string) (name string, fields []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read processor time: %w", err)
	}
	end := bytes.LastIndexByte(text, ')')
	fields = strings.Fields(string(text[end+1:]))
	if len(fields) <= cstime {
		return "", nil, fmt.Errorf("read processor time: %q", text)
	}
	_, name, _ = strings.Cut(string(text[:end]), "(")
	name, _, _ = strings.Cut(name, "/")
	return name, fields, nil
}

// clockTick is the unit of times in /proc: USER_HZ, which is 100 per second on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

func parseTicks(fields []string, which ...int) (time.Duration, error) {
	var sum int64
	for _, i := range which {
		if i >= len(fields) {
			return 0, fmt.Errorf("read processor time: only %d fields", len(fields))
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * clockTick, nil
}
