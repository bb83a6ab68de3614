package main

import (
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// stamp is what a source says of itself, as Go writes it into the programs that it builds.
type stamp struct {
	// version is a tag of git, or what Go calls a commit between tags.
	version, revision string
	// created is the commit's time, or what SOURCE_DATE_EPOCH says (https://reproducible-builds.org/specs/source-date-epoch/).
	created time.Time
}

// unknown is the version of a source without git.
const unknown = "v0.0.0-unknown"

// stampOf reads it from a program. epoch is SOURCE_DATE_EPOCH, which may be empty.
func stampOf(program, epoch string) (stamp, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return stamp{}, fmt.Errorf("read version: %w", err)
	}
	return stampIn(info, epoch)
}

func stampIn(info *debug.BuildInfo, epoch string) (stamp, error) {
	s := stamp{version: info.Main.Version, created: time.Unix(0, 0)}
	if s.version == "" || s.version == "(devel)" {
		s.version = unknown
	}
	for _, setting := range info.Settings {
		var err error
		switch setting.Key {
		case "vcs.revision":
			s.revision = setting.Value
		case "vcs.time":
			if s.created, err = time.Parse(time.RFC3339, setting.Value); err != nil {
				return stamp{}, fmt.Errorf("read commit's time: %w", err)
			}
		}
	}
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return stamp{}, fmt.Errorf("read SOURCE_DATE_EPOCH: %q is no number of seconds", epoch)
		}
		s.created = time.Unix(seconds, 0)
	}
	s.created = s.created.UTC()
	return s, nil
}

// tag is the version as a registry's tag, which has no plus sign.
func (s stamp) tag() string { return strings.ReplaceAll(s.version, "+", "-") }
