// Package tier tells tests whether the gate runs them (make test) or everything (make test-all), and by which seed they draw.
//
// In flow environment variables, which command suites (test/suites) sets. They are read when a test asks, so that Go's test cache
// takes them into account. Out flow a tier and a seed. Whole tests and subtests that only make test-all runs are in a table of
// command suites, not here.
package tier

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

const (
	// Variable names the environment variable that is "all" in make test-all.
	Variable = "ATOLL_TIER"
	// SeedVariable names the environment variable that holds the seed.
	SeedVariable = "ATOLL_SEED"
	// RapidSeedVariable names the environment variable that holds the seed of package rapid.
	RapidSeedVariable = "RAPID_SEED"
	// FixedSeed is the seed of the gate, so that a change which fails is to blame for it.
	FixedSeed = 1
)

// All reports whether this run leaves nothing out.
func All() bool { return os.Getenv(Variable) == "all" }

// Seed returns what a test draws by. Its log, which a failure shows, says how to draw the same again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	said := cmp.Or(os.Getenv(SeedVariable), strconv.Itoa(FixedSeed))
	seed, err := strconv.ParseUint(said, 10, 64)
	if err != nil {
		t.Fatalf("read %s: %v", SeedVariable, err)
	}
	t.Logf("%s=%d draws the same", SeedVariable, seed)
	return seed
}
