// Package rlimit raises limits of this process, which its children get, too.
package rlimit

import "syscall"

// RaiseFiles raises the limit of open files to the hardest that this process may have. Daemons of Open vSwitch raise none for
// themselves (ovs-vswitchd(8), LIMITS).
func RaiseFiles() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		// Go has raised it for itself, but children get the limit of before, unless it is set here.
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}
