package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// collectAt is by how many percent the heap grows before garbage is collected. What the controller holds for
	// each pod is small and stays; it makes little garbage, so that half of Go's own 100 costs hardly any processor
	// time and saves a quarter of the memory.
	collectAt = 50
	// weight is memory, in bytes, that is asked for and never touched, so that the system gives none: a small heap
	// counts as one so much larger, and may grow by at least 32 MB before garbage is collected. Without it, a burst
	// onto few pods spent a quarter of its time collecting.
	weight = 64 << 20
)

// boundGarbage sets that, unless the environment sets something else (GOGC, as for every Go program). What it returns
// must be called when the program ends.
func boundGarbage() (release func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(collectAt)
	ballast := make([]byte, weight)
	return func() { runtime.KeepAlive(ballast) }
}
