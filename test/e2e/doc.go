// Package e2e tests Atoll on a real cluster: a sandbox of three nodes with the real kubelet, containerd, OVN and
// Open vSwitch. All tests share one sandbox, in which the example of two Networks runs. It is made anew and removed at
// the end, and what it leaves behind fails the run; package cluster says by which variables that is changed.
//
// Tests that kill, count or damage what all share run first and one by one; those that keep to Networks of their own
// run side by side after them (t.Parallel).
//
//	go test -tags e2e ./test/e2e            needs root and bin/ (make build)
package e2e
