package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/test/wait"
)

// parent is set in a process that starts a child and waits to be killed.
const parent = "ATOLL_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = os.Stdout
	c, err := Start(cmd)
	fmt.Println("started", err)
	if err == nil {
		_ = c.Wait()
	}
}

func start(t *testing.T, program string, args ...string) *Child {
	t.Helper()
	c, err := Start(exec.Command(program, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func ended(c *Child) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func TestHowAChildEnds(t *testing.T) {
	t.Parallel()
	if err := start(t, "true").Wait(); err != nil {
		t.Errorf("true ends with %v", err)
	}
	if err := start(t, "true").Ended(); err == nil || err.Error() != "exit status 0" {
		t.Errorf("true has ended: %v", err)
	}
	c := start(t, "false")
	if err := c.Ended(); err == nil || err.Error() != "exit status 1" || !ended(c) {
		t.Errorf("false has ended: %v", err)
	}
	_, err := Start(exec.Command("/no/such/program"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start /no/such/program") {
		t.Errorf("error %v", err)
	}
}

func TestEndAsksFirst(t *testing.T) {
	t.Parallel()
	asked := start(t, "sleep", "600")
	asked.End(wait.Patience)
	if status := asked.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it has ended by %s", status.Signal())
	}
	// A child that ignores the signal is killed. One that has ended already is left alone.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo deaf; exec sleep 600")
	cmd.Stdout = write
	deaf, err := Start(cmd)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(read, make([]byte, len("deaf"))); err != nil {
		t.Error(err)
	}
	deaf.End(10 * time.Millisecond)
	deaf.End(10 * time.Millisecond)
	if status := deaf.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it has ended by %s", status.Signal())
	}
}

// onLastThread runs something on a thread that ends with it, and returns when the thread has. A process's first thread would not end.
func onLastThread(t *testing.T, do func()) {
	t.Helper()
	thread := make(chan int)
	var locked func()
	locked = func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			defer runtime.UnlockOSThread()
			done := make(chan struct{})
			go func() { defer close(done); locked() }() // not on this thread, which is taken
			<-done
			return
		}
		do()
		thread <- syscall.Gettid()
	}
	go locked()
	task := fmt.Sprintf("/proc/self/task/%d", <-thread)
	wait.Until(t, wait.Patience, "the thread has ended", func() bool {
		_, err := os.Stat(task)
		return os.IsNotExist(err)
	})
}

// A goroutine that keeps its thread to its end takes the thread along, and with it what the kernel ties to the thread. The child lives on.
func TestAChildOutlivesTheThreadOfItsCaller(t *testing.T) {
	t.Parallel()
	read, itsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	itsIn, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = write.Close() }()
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = itsIn, itsOut
	var c *Child
	onLastThread(t, func() { c, err = Start(cmd) })
	_, _ = itsIn.Close(), itsOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	// The signal was sent before the thread was gone: a child that got it answers no more.
	if _, err := io.WriteString(write, "tide"); err != nil {
		t.Error(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(read, got); err != nil || string(got) != "tide" {
		t.Errorf("it answers %q, error %v", got, err)
	}
}

// Whatever a process dies of, its children go with it: the pipe into which both could write ends.
func TestAChildDoesNotOutliveTheProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), parent+"=1"), write, os.Stderr
	process, err := Start(cmd)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	defer wait.Limit(read, wait.Patience)()
	lines := bufio.NewScanner(read)
	if !lines.Scan() || lines.Text() != "started <nil>" {
		t.Fatalf("it says %q, %v", lines.Text(), lines.Err())
	}
	process.Kill()
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("the child lives on: %q, %v", lines.Text(), lines.Err())
	}
}

// What the caller asks of the process stays.
func TestAChildHasWhatItsCallerAsksFor(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	if group, err := syscall.Getpgid(c.PID()); err != nil || group != c.PID() {
		t.Errorf("its group is %d, error %v", group, err)
	}
}
