package wait

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// own lists the functions that may have a loop with a clock of its own, by file and name, and why: they measure, or do something at a pace.
var own = map[string]string{
	"pkg/agent/floods_integration_test.go:answered":                                   "counts answers in a window",
	"pkg/agent/policy_integration_test.go:flood":                                      "sends at a pace",
	"pkg/agent/policy_integration_test.go:takeAway":                                   "breaks at a pace",
	"pkg/agent/throttle_integration_test.go:TestAPodDoesNotHaveOVNControllerToItself": "counts answers in a window",
	"pkg/daemons/central/central_integration_test.go:write": "measures how " +
		"long a write takes at the worst",
	"pkg/controller/decide/between_integration_test.go:TestNothingIsOpenBetweenTwoTransactions": "kills at random moments",
	"pkg/inspect/inspectapi/explainsend_test.go:observe":                                        "is an agent that beats",
	"pkg/dns/names/life_integration_test.go:TestHandover": "measures the slowest " +
		"answer, and does not judge it",
	"pkg/node/porthole/bench_integration_test.go:BenchmarkEnsure": "measures",
	"pkg/node/porthole/judge_integration_test.go:follow":          "reads sockets until what follows a packet is seen",
	"test/e2e/hostile/explained_test.go:compare":                  "asks again what is in doubt, a fixed number of times",
	"test/e2e/installed/churn_test.go:killMembers":                "kills at a pace",
	"test/e2e/installed/churn_test.go:run":                        "makes and removes pods at a pace",
	"test/e2e/installed/connectivity_test.go:onceThere":           "waits beside a command whose end is its limit",
	"test/e2e/installed/shutout_test.go:TestAStolenNodeIsShutOut": "asks at a pace",
	"test/e2e/installed/uninstall_test.go:whileAskingTheAPI":      "asks at a pace",
}

// TestOnlyThisPackageWaits: no function of a test file has a loop that asks the clock whether to go on. Bubbles of testing/synctest
// have a clock that does not depend on the machine.
func TestOnlyThisPackageWaits(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path == filepath.Join(root, "bin") {
			// What is built may have a copy of the source beside it.
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && waits(f, false) {
				found[name+":"+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := range found {
		if own[at] == "" {
			t.Errorf("%s has a loop with a clock of its own: use wait.Eventually, wait.Within or wait.Never", at)
		}
	}
	for at := range own {
		if !found[at] {
			t.Errorf("%s has no such loop: it need not be listed", at)
		}
	}
}

// waits reports whether a piece of code asks a clock inside a loop.
func waits(n ast.Node, inLoop bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if found {
			return false
		}
		switch n := n.(type) {
		case *ast.ForStmt:
			if !inLoop {
				found = waits(n, true)
				return false
			}
		case *ast.RangeStmt:
			// Ranging over a ticker's channel.
			if s, is := n.X.(*ast.SelectorExpr); is && s.Sel.Name == "C" {
				found = true
			}
		case *ast.CallExpr:
			called := name(n.Fun)
			if called == "synctest.Test" {
				return false
			}
			if strings.HasPrefix(called, "wait.Poll") || called == "time.Tick" {
				found = true
			}
			if inLoop && slices.Contains([]string{"time.After", "time.Since", "time.Until", "time.Now().Before", "time.Now().After"}, called) {
				found = true
			}
		case *ast.UnaryExpr:
			// <-timer.C
			if s, is := n.X.(*ast.SelectorExpr); is && inLoop && n.Op == token.ARROW && s.Sel.Name == "C" {
				found = true
			}
		}
		return true
	})
	return found
}

// name is how a function is called, for a function of a package, and time.Now().Before.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return fmt.Sprintf("%s.%s", name(e.X), e.Sel.Name)
	case *ast.CallExpr:
		return name(e.Fun) + "()"
	}
	return ""
}
