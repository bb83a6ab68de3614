// Command kernel runs a program as root of a Linux kernel of its own, which has Open vSwitch's datapath in it. By it
// `make test-kernel` has go test run the tests of packets on the datapath that users run, also on a machine whose own
// kernel lacks it.
//
//	go test -exec KERNEL ──starts──▶ kernel PROGRAM ARG..
//	      ▲                             │      ▲ └──starts──▶ kernel -keep LINUX ARG.. (first process of a PID namespace)
//	      └────────── output ───────────┘      │                └──boots──▶ user-mode-linux
//	                                           │                              └──starts──▶ kernel -inside FILE (its init)
//	                                           │                                             │ starts, reaps
//	                                           └───────── tty1: output, tty2: status ◀───────┴─▶ PROGRAM ARG..
//
// In flow the program with its arguments, directory and environment, and this machine's files; out flow what it prints
// and its exit status. What must stay true:
//
//   - Nothing outside is changed. The kernel has no disk and no network device. It reads this machine's files and cannot
//     write them: what programs write goes to memory.
//   - However this process ends, the kernel and all in it end too: they are in a PID namespace, whose first process dies
//     with its parent.
//   - A kernel that ends without having told a status has failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// kernelVariable names the environment variable with the path of the kernel.
const kernelVariable = "ATOLL_KERNEL"

func main() {
	job := flag.String("inside", "", "run the job of this `file`, as the first process of the kernel")
	keep := flag.Bool("keep", false, "run the kernel of the arguments, as the first process of a PID namespace")
	memory := flag.String("memory", "2G", "how much memory the kernel has")
	flag.Parse()
	if *job != "" {
		inside(*job)
		return
	}
	if *keep {
		if err := keepKernel(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "kernel ended:", err)
			os.Exit(1)
		}
		return
	}
	// go test asks for the stacks of a test that hangs with SIGQUIT.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	status, err := run(ctx, *memory, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "kernel:", err)
		status = 1
	}
	stop()
	os.Exit(status)
}

func run(ctx context.Context, memory string, argv []string) (status int, err error) {
	if len(argv) == 0 {
		return 0, errors.New("name a program to run")
	}
	if os.Geteuid() != 0 {
		return 0, errors.New("a kernel is kept in a PID namespace: that needs root")
	}
	linux := os.Getenv(kernelVariable)
	if linux == "" {
		return 0, fmt.Errorf("%s is not set: it must name a user-mode-linux kernel (make test-kernel sets it)", kernelVariable)
	}
	dir, err := os.MkdirTemp("", "atoll-kernel-")
	if err != nil {
		return 0, fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := machine{linux: linux, memory: memory, dir: dir}
	return m.run(ctx, argv)
}
