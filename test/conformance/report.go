package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// outcome is what came of a spec.
type outcome struct {
	spec string
	took time.Duration
	// failure is the message of a spec that did not pass.
	failure string
	passed  bool
}

// ginkgoReport is what we read of the report that ginkgo writes (github.com/onsi/ginkgo/v2/types.Report).
type ginkgoReport struct {
	SpecReports []specReport
}

type specReport struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	// RunTime is in nanoseconds.
	RunTime time.Duration
	Failure struct{ Message string }
}

// readReport reads what came of the specs that ran. It is an error if a part of the suite that is no spec failed, for then
// no spec says why.
func readReport(path string) ([]outcome, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return parseReport(data)
}

func parseReport(data []byte) ([]outcome, error) {
	var reports []ginkgoReport
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("parse report: %w", err)
	}
	var outcomes []outcome
	var broken []error
	for _, report := range reports {
		for _, s := range report.SpecReports {
			passed := s.State == "passed"
			switch {
			case s.LeafNodeType != "It":
				if !passed && s.State != "skipped" && s.State != "pending" {
					broken = append(broken, fmt.Errorf("run %s: %s: %s", s.LeafNodeType, s.State, s.Failure.Message))
				}
			case !chosen(s):
			default:
				name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
				outcomes = append(outcomes, outcome{spec: name, took: s.RunTime, passed: passed, failure: failureOf(s)})
			}
		}
	}
	return outcomes, errors.Join(broken...)
}

// chosen tells whether a spec was asked for. One that was not is skipped or pending and says nothing; one that skips
// itself says why.
func chosen(s specReport) bool {
	switch s.State {
	case "pending":
		return false
	case "skipped":
		return s.Failure.Message != ""
	}
	return true
}

func failureOf(s specReport) string {
	switch s.State {
	case "passed":
		return ""
	case "failed":
		return s.Failure.Message
	case "skipped":
		return "it skipped itself: " + s.Failure.Message
	}
	return s.State + ": " + s.Failure.Message // panicked, interrupted, timedout, aborted
}
