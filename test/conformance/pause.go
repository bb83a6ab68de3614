package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pause is a time in which ovs-vswitchd of a node did nothing. Packets of the userspace datapath wait as long, and a probe's
// time is over: a machine that others use, too, can make any spec fail. Seen was that it waited for the kernel's lock on the
// configuration of networks (rtnl), one for all namespaces, while another cluster made hundreds of pods.
type pause struct {
	node string
	end  time.Time
	long time.Duration
}

const (
	// longPause is what a probe waits for an answer unless it says otherwise.
	longPause = time.Second
	// shownPauses bounds how many the summary shows.
	shownPauses = 5
)

// pauses are those of all nodes since a time, the longest first, as their logs have them.
func (c *cluster) pauses(since time.Time) ([]pause, error) {
	var out []pause
	for _, node := range c.box.Nodes() {
		paths, err := filepath.Glob(filepath.Join(c.box.PodLogs(node), "atoll-system_atoll-ovn-node-*", "ovs-vswitchd", "*.log"))
		if err == nil && len(paths) == 0 {
			err = errors.New("there is none")
		}
		if err != nil {
			return nil, fmt.Errorf("find log of ovs-vswitchd of %s: %w", node, err)
		}
		for _, path := range paths {
			log, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read log of ovs-vswitchd of %s: %w", node, err)
			}
			out = append(out, parsePauses(node, string(log), since)...)
		}
	}
	slices.SortStableFunc(out, func(a, b pause) int { return cmp.Compare(b.long, a.long) })
	return out, nil
}

// stoodStill is what the main thread logs when it comes back late; others name themselves behind the module. (timeval.c of
// Open vSwitch.) The container runtime has put the time, the stream and F for a whole line before it.
var stoodStill = regexp.MustCompile(`^\S+ std\S+ F (\S+)\|\d+\|timeval\|WARN\|Unreasonably long (\d+)ms poll interval`)

// parsePauses reads a node's log.
func parsePauses(node, log string, since time.Time) []pause {
	var out []pause
	for line := range strings.Lines(log) {
		found := stoodStill.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		end, err := time.Parse(time.RFC3339, found[1])
		ms, numberErr := strconv.ParseInt(found[2], 10, 32)
		p := pause{node: node, end: end, long: time.Duration(ms) * time.Millisecond}
		if err == nil && numberErr == nil && p.long >= longPause && !end.Before(since.Truncate(time.Second)) {
			out = append(out, p)
		}
	}
	return out
}

// explainPauses prints the longest.
func explainPauses(out io.Writer, n network, pauses []pause) {
	if len(pauses) == 0 {
		return
	}
	fmt.Fprintf(out, "\nnetwork %s: ovs-vswitchd stood still meanwhile, %d times for %s and longer; the longest\n", n, len(pauses), longPause)
	for _, p := range pauses[:min(len(pauses), shownPauses)] {
		fmt.Fprintf(out, "  %s for %s until %s\n", p.node, p.long.Round(100*time.Millisecond), p.end.Format(time.TimeOnly))
	}
}
