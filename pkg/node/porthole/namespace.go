package porthole

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// before is what something is made upon.
type before int

const (
	// something: perhaps what was made before, in whatever state it is by now.
	something before = iota
	// nothing: a namespace that was made a moment ago. Then nothing has to be looked for or removed: each question costs
	// a turn at a lock that all links of the machine share, and each removal more.
	nothing
)

// space is a porthole's network namespace, open. Whoever opened it closes it.
type space struct {
	ns.NetNS

	upon before
	// mounted tells once how it went to mount a namespace that was made: until then it stays no longer than it is open. It is nil
	// for one that was there.
	mounted <-chan error
}

// openNetns opens a porthole's network namespace, and makes it when it is not there.
func openNetns(path string) (space, error) {
	if netdev.NetnsGone(path) {
		made, err := makeNetns(path)
		if err != nil {
			return space{}, fmt.Errorf("make network namespace %s: %w", path, err)
		}
		return made, nil
	}
	netns, err := ns.GetNS(path)
	if err != nil {
		return space{}, fmt.Errorf("open network namespace: %w", err)
	}
	return space{NetNS: netns, upon: something}, nil
}

// onLastThread runs something on a thread that runs nothing else and ends with it, so that nobody else is where it goes. A
// process's first thread never ends: it would stay there, and with it the namespace, and whoever looks for the process's own
// (/proc/PID/ns, kubectl exec) would find that one.
func onLastThread(do func()) {
	// Never unlocked but for the first thread: it ends with its goroutine.
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() { // ends with do; not on this thread, which is taken
		defer close(done)
		onLastThread(do)
	}()
	<-done
}

// makeNetns makes a network namespace, and begins to mount it at path. To mount takes a lock that all mounts of the machine have in
// common, and all who read the list of them: where many containers start that can take seconds, in which the namespace is filled.
func makeNetns(path string) (space, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return space{}, err
	}
	// A crash may have left the file without the mount.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return space{}, err
	}
	if err := file.Close(); err != nil {
		return space{}, err
	}
	type unshared struct {
		netns ns.NetNS
		err   error
	}
	made, mounted := make(chan unshared), make(chan error, 1)
	go onLastThread(func() { // ends with the mount
		var u unshared
		if u.err = unix.Unshare(unix.CLONE_NEWNET); u.err == nil {
			u.netns, u.err = ns.GetCurrentNS()
		}
		made <- u
		if u.err == nil {
			mounted <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
	})
	u := <-made
	return space{NetNS: u.netns, upon: nothing, mounted: mounted}, u.err
}

// stay waits until the namespace stays when it is closed.
func (s space) stay() error {
	if s.mounted == nil {
		return nil
	}
	if err := <-s.mounted; err != nil {
		return fmt.Errorf("mount network namespace: %w", err)
	}
	return nil
}

// removeNetns removes a namespace, and what is left of one. That there is none is no error.
func removeNetns(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// listNetns are the files in netnsDir whose names are those of portholes.
func listNetns() ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if id, has := idIn(e.Name()); has && e.Name() == id.Name() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Here are the portholes whose namespaces are on this node, made by whatever process.
func Here() ([]ID, error) {
	names, err := listNetns()
	var out []ID
	for _, name := range names {
		// Not one that is being made, or is left half removed.
		if id, has := idIn(name); has && !netdev.NetnsGone(id.NetnsPath()) {
			out = append(out, id)
		}
	}
	return out, err
}

// At is the porthole whose namespace is at a path on this node; false when there is none.
func At(path string) (ID, bool) {
	id, has := idIn(filepath.Base(path))
	return id, has && path == id.NetnsPath() && !netdev.NetnsGone(path)
}

// NameAddresses are where pods ask for names in a porthole: those that Ensure gave to its loopback interface. None when nobody is to
// answer there.
func NameAddresses(id ID) ([]netip.Addr, error) {
	netns, err := ns.GetNS(id.NetnsPath())
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	defer netns.Close()
	var out []netip.Addr
	err = inside(netns, func() error {
		lo, err := netdev.LinkOf("lo")
		if err != nil {
			return err
		}
		list, err := netdev.ListAddresses(lo)
		for _, a := range list {
			if address, ok := netipx.FromStdIP(a.IP); ok && !address.IsLoopback() {
				out = append(out, address)
			}
		}
		return err
	})
	slices.SortFunc(out, netip.Addr.Compare)
	return out, err
}

// inside runs f in a porthole's network namespace, or in the caller's when netns is nil. What f starts there, and what it
// asks of the kernel, is there.
func inside(netns ns.NetNS, f func() error) error {
	if netns == nil {
		return f()
	}
	return netns.Do(func(ns.NetNS) error { return f() })
}
