package sandbox

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestFitsInotify(t *testing.T) {
	if err := fitsInotify(3, 0, "128\n"); err != nil {
		t.Errorf("three nodes do not fit: %v", err)
	}
	if err := fitsInotify(3, 77, "128\n"); err != nil {
		t.Errorf("three nodes do not fit beside 77 instances of others: %v", err)
	}
	if err := fitsInotify(3, 78, "128\n"); err == nil || !strings.Contains(err.Error(), "max_user_instances=129") {
		t.Errorf("error is %v, want one that counts what others use", err)
	}
	if err := fitsInotify(20, 0, "128\n"); err == nil || !strings.Contains(err.Error(), "max_user_instances=187") {
		t.Errorf("error is %v, want one that names the value to set", err)
	}
	if err := fitsInotify(1, 0, "many"); err == nil {
		t.Error("a limit that is no number passes")
	}
}

func TestInotifyInstances(t *testing.T) {
	self := func(pid int) bool { return pid == os.Getpid() }
	before, err := inotifyInstances(self)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		descriptor, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(descriptor)
	}
	after, err := inotifyInstances(self)
	if err != nil {
		t.Fatal(err)
	}
	if after != before+3 {
		t.Errorf("there are %d instances, then 3 more are made, then there are %d", before, after)
	}
	none, err := inotifyInstances(func(int) bool { return false })
	if err != nil || none != 0 {
		t.Errorf("of no process there are %d instances (%v)", none, err)
	}
}
