package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// watcher reads what ginkgo prints and shows a line for each spec that has ended. It is for people: what came of the specs
// is read from the report.
type watcher struct {
	out   io.Writer
	specs []string
	list  exceptions

	rest []byte
	// status and seconds of a spec whose name comes in the next line.
	status, seconds string
	expectsName     bool
	ended           int
}

func newWatcher(out io.Writer, specs []string, list exceptions) *watcher {
	return &watcher{out: out, specs: specs, list: list}
}

// Write takes the output in pieces as they come.
func (w *watcher) Write(piece []byte) (int, error) {
	w.rest = append(w.rest, piece...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(piece), nil
		}
		w.line(string(w.rest[:end]))
		w.rest = w.rest[end+1:]
	}
}

var (
	// ended matches the line that begins the account of a spec: "• [FAILED] [12.3 seconds]".
	ended = regexp.MustCompile(`^• (?:\[([A-Z ]+)\] )?\[([0-9.]+) seconds\]$`)
	// failedPart is how the part of a spec that failed is marked in its name: "[sig-network] DNS [It] should ...".
	failedPart = regexp.MustCompile(`\[(It|BeforeEach|AfterEach|DeferCleanup \([^)]*\))\] `)
)

func (w *watcher) line(line string) {
	if match := ended.FindStringSubmatch(line); match != nil {
		w.status, w.seconds, w.expectsName = match[1], match[2], true
		return
	}
	if !w.expectsName || line == "" {
		return
	}
	w.expectsName = false
	name := failedPart.ReplaceAllString(line, "")
	for _, spec := range w.specs {
		if strings.HasPrefix(name, spec) {
			w.show(spec)
			return
		}
	}
}

func (w *watcher) show(spec string) {
	w.ended++
	verdict := "ok  "
	if w.status != "" {
		verdict = "FAIL"
		if _, ok := w.list.reason(spec); ok {
			verdict = "fail" // as said
		}
	}
	// Aligned: ginkgo gives three decimals, and more than 999 seconds are no spec's.
	fmt.Fprintf(w.out, "%3d/%d  %s %8ss  %s\n", w.ended, len(w.specs), verdict, w.seconds, spec)
}
