//go:build integration

package porthole

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/wait"
)

// The test run proper is in network and mount namespaces of its own: it is a node, and ends with the process.
const envInside = "ATOLL_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(envInside) == "" {
		os.Exit(runInside())
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		os.MkdirAll(netnsDir, 0o755),
		unix.Mount("tmpfs", netnsDir, "tmpfs", 0, ""),
	); err != nil {
		fmt.Fprintln(os.Stderr, "make a mount namespace:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runInside() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find the test binary:", err)
		return 1
	}
	// The process that a parent-death signal follows is the thread that started it.
	runtime.LockOSThread()
	inside := exec.Command(self, os.Args[1:]...)
	inside.Env = append(os.Environ(), envInside+"=1")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signal.Ignore(syscall.SIGINT)
	if err := inside.Run(); err != nil {
		return max(1, inside.ProcessState.ExitCode())
	}
	return 0
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// keeper is one that clears up after itself.
func keeper(tb testing.TB) *Keeper {
	tb.Helper()
	k, err := NewKeeper()
	must(tb, err)
	tb.Cleanup(func() {
		ids, err := k.List()
		must(tb, err)
		for _, id := range ids {
			must(tb, k.Remove(id))
		}
		must(tb, k.EnsureHost(Host{}))
	})
	return k
}

// state is what the kernel has of a porthole and of the node, as its tools show it.
func state(tb testing.TB, uid string) string {
	tb.Helper()
	out := ""
	show := func(command ...string) {
		text, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			tb.Fatalf("%v: %v %s", command, err, text)
		}
		lines := strings.Split(string(text), "\n")
		if !slices.Contains(command, "nft") {
			// As they were made, which does not matter.
			slices.Sort(lines)
		}
		out += fmt.Sprintf("%v\n%s\n", command, strings.Join(lines, "\n"))
	}
	in := []string{"ip", "netns", "exec", IDOf(uid).Name()}
	for _, command := range []string{
		"nft list ruleset", "ip -br -4 address", "ip -br -6 address", "ip route show table all", "ip -6 route show table all",
		"ip rule", "ip -6 rule", "ip neigh",
	} {
		show(append(in, strings.Fields(command)...)...)
	}
	show(append(in, "sh", "-c", "cd /proc/sys/net && grep -s . "+strings.Join(settings(), " "))...)
	show("ip", "route", "show", "proto", "167")
	show("ip", "-6", "route", "show", "proto", "167")
	show("ip", "neigh", "show", "dev", IDOf(uid).HostLink())
	// Without the index of the other end of a pair, which is another in each pair, and the blanks that it costs.
	return regexp.MustCompile("(@if[0-9]+)? +").ReplaceAllString(out, " ")
}

// settings are the files below /proc/sys/net that decide what a porthole lets through.
func settings() (files []string) {
	for _, iface := range []string{"all", networkSide, hostSide} {
		for _, key := range []string{"rp_filter", "send_redirects", "accept_redirects", "accept_source_route"} {
			files = append(files, "ipv4/conf/"+iface+"/"+key)
		}
		for _, key := range []string{"disable_ipv6", "accept_ra", "accept_redirects", "accept_source_route"} {
			files = append(files, "ipv6/conf/"+iface+"/"+key)
		}
	}
	for _, iface := range []string{networkSide, hostSide} {
		files = append(files, "ipv4/conf/"+iface+"/forwarding", "ipv6/conf/"+iface+"/addr_gen_mode")
	}
	return append(files, "ipv6/conf/all/forwarding")
}

// settled is the state once all links are up: one that was set up is shown as down until the kernel has seen its carrier, some
// time later.
func settled(tb testing.TB, uid string) string {
	tb.Helper()
	now := ""
	_ = wait.For(tb.Context(), 5*time.Second, func(context.Context) error {
		if now = state(tb, uid); strings.Contains(now, " DOWN ") {
			return errors.New("a link is down")
		}
		return nil
	})
	return now
}

func TestRepairComesToTheSameStateFromAnywhere(t *testing.T) {
	k := keeper(t)
	must(t, k.EnsureHost(testHost()))
	spec := testSpec("u1")
	must(t, k.Ensure(spec))
	want := settled(t, "u1")
	for _, fact := range []string{
		"ipv4/conf/ovn0/forwarding:1", "ipv4/conf/host0/forwarding:1", "ipv6/conf/all/forwarding:1", "ipv4/conf/all/rp_filter:0",
		"ipv6/conf/ovn0/addr_gen_mode:1", "ipv6/conf/host0/disable_ipv6:0", "ipv4/conf/host0/accept_redirects:0", "100.64.0.5 via 169.254.100.6",
		"unreachable 100.64.0.0/24", "10.129.0.0/16 via 10.128.0.1", "100.64.0.0/10 via 10.128.0.1",
	} {
		if !strings.Contains(want, fact) {
			t.Errorf("missing: %s", fact)
		}
	}
	netns := IDOf("u1").NetnsPath()
	in := func(command string) func() error {
		return func() error {
			return exec.Command("ip", append([]string{"netns", "exec", IDOf("u1").Name()}, strings.Fields(command)...)...).Run()
		}
	}
	set := func(file, value string) func() error {
		return func() error {
			command := exec.Command("ip", "netns", "exec", IDOf("u1").Name(), "tee", "/proc/sys/net/"+file)
			command.Stdin = strings.NewReader(value)
			return command.Run()
		}
	}
	for name, breakIt := range map[string]func() error{
		"nothing":             func() error { return nil },
		"a link forwards not": set("ipv4/conf/ovn0/forwarding", "0"),
		"IPv6 forwards not":   set("ipv6/conf/all/forwarding", "0"),
		"IPv6 is off":         set("ipv6/conf/all/disable_ipv6", "1"),
		"redirects are taken": set("ipv4/conf/host0/accept_redirects", "1"),
		"sources are checked": set("ipv4/conf/all/rp_filter", "1"),
		"rules flushed":       in("nft flush ruleset"),
		"an element gone":     in("nft delete element inet atoll pods4 {10.0.0.5}"),
		"a link down":         in("ip link set ovn0 down"),
		"the node's end down": func() error { return exec.Command("ip", "link", "set", IDOf("u1").HostLink(), "down").Run() },
		"a link gone":         in("ip link delete host0"),
		"both links gone": func() error {
			return errors.Join(in("ip link delete host0")(), exec.Command("ip", "link", "delete", IDOf("u1").Name()).Run())
		},
		"a rule of routes gone": in("ip rule del pref 100"),
		"an address too many":   in("ip address add 192.0.2.77/32 dev lo"),
		"unmounted":             func() error { return unix.Unmount(netns, unix.MNT_DETACH) },
		"a file only": func() error {
			return errors.Join(removeNetns(netns), os.WriteFile(netns, nil, 0o444))
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, breakIt())
			must(t, k.Repair(spec))
			if diff := cmp.Diff(want, settled(t, "u1")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("restart", func(t *testing.T) {
		k := keeper(t)
		must(t, k.EnsureHost(testHost()))
		must(t, k.Ensure(spec))
		if diff := cmp.Diff(want, settled(t, "u1")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestPodsComeAndGoOneByOne(t *testing.T) {
	k := keeper(t)
	must(t, k.EnsureHost(testHost()))
	spec := testSpec("u1")
	all := spec.Pods
	must(t, k.Ensure(spec))
	want := state(t, "u1")
	spec.Pods = all[:2]
	must(t, k.Ensure(spec))
	less := state(t, "u1")
	if strings.Contains(less, "100.64.0.6") || strings.Contains(less, "10.0.0.6") {
		t.Errorf("a pod that has gone is left:\n%s", less)
	}
	for n := 3; n <= len(all); n++ {
		spec.Pods = all[:n]
		must(t, k.Ensure(spec))
	}
	if diff := cmp.Diff(want, state(t, "u1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A pod more is an element more, not a table: no rule is written anew.
func TestAPodMoreLeavesTheRulesAlone(t *testing.T) {
	k := keeper(t)
	spec := testSpec("u1")
	must(t, k.Ensure(spec))
	handles := func() string {
		out, err := exec.Command("ip", "netns", "exec", IDOf("u1").Name(), "nft", "-a", "list", "chain", "inet", "atoll", "out").CombinedOutput()
		must(t, err)
		return string(out)
	}
	before := handles()
	spec.Pods = append(slices.Clone(spec.Pods), testPods(9)...)
	must(t, k.Ensure(spec))
	if after := handles(); after != before {
		t.Errorf("rules were written anew:\n%s\n%s", before, after)
	}
}

// The bridge holds one of the links: it must not be made anew behind its back.
func TestEnsureMakesNoLinkAnew(t *testing.T) {
	for name, breakIt := range map[string]func() error{
		"the link to the bridge": func() error { return netdev.DeleteLink(IDOf("u1").Name()) },
		"the link to the node":   func() error { return netdev.DeleteLink(IDOf("u1").HostLink()) },
		"the namespace":          func() error { return removeNetns(IDOf("u1").NetnsPath()) },
	} {
		for change, changed := range map[string]func(*Spec){
			"egress": func(s *Spec) { s.Egress = model.EgressNone },
			"MTU":    func(s *Spec) { s.MTU = 1400 },
		} {
			t.Run(name+", "+change, func(t *testing.T) {
				k := keeper(t)
				spec := testSpec("u1")
				must(t, k.Ensure(spec))
				must(t, breakIt())
				changed(&spec)
				if err := k.Ensure(spec); !errors.Is(err, errBroken) {
					t.Errorf("error %v", err)
				}
				must(t, k.Repair(spec))
				if whole, err := k.Whole(spec); err != nil || !whole {
					t.Errorf("not whole after the repair (error %v)", err)
				}
			})
		}
	}
}

func TestListFindsHalfOnesAndNoStrangers(t *testing.T) {
	k := keeper(t)
	must(t, k.Ensure(testSpec("u1")))
	// One without its links, one without its namespace, one of which only a file is left; and strangers.
	empty, err := makeNetns(IDOf("u2").NetnsPath())
	must(t, err)
	must(t, errors.Join(empty.stay(), empty.Close()))
	must(t, k.Ensure(testSpec("u3")))
	// While it is open somewhere the namespace stays, and the links with it, without a name.
	nameless, err := ns.GetNS(IDOf("u3").NetnsPath())
	must(t, err)
	defer nameless.Close()
	must(t, removeNetns(IDOf("u3").NetnsPath()))
	must(t, os.WriteFile(IDOf("u4").NetnsPath(), nil, 0o444))
	stranger := netnsDir + "/atoll-of-somebody-else"
	must(t, os.WriteFile(stranger, nil, 0o444))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Alias = IDOf("u5").HostLink(), "uplink to rack 7"
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
	defer func() { must(t, errors.Join(os.Remove(stranger), netdev.DeleteLink(attrs.Name))) }()
	ids, err := k.List()
	must(t, err)
	want := []ID{IDOf("u1"), IDOf("u2"), IDOf("u3"), IDOf("u4")}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("found %v, want %v", ids, want)
	}
	if err := k.Remove(IDOf("u5")); err == nil {
		t.Error("a stranger's link was removed")
	}
}

// A face that has moved to another Network's pod goes there, whatever is left of the pod that had it.
func TestAFaceGoesToWhoHadItLast(t *testing.T) {
	k := keeper(t)
	must(t, k.Ensure(testSpec("u1")))
	must(t, k.Ensure(testSpec("u2")))
	out, err := exec.Command("ip", "route", "show", "100.64.0.5").CombinedOutput()
	must(t, err)
	if !strings.Contains(string(out), IDOf("u2").HostLink()) || strings.Contains(string(out), IDOf("u1").HostLink()) {
		t.Errorf("the face goes by %s", out)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	k := keeper(t)
	must(t, k.EnsureHost(testHost()))
	nothing := func() string {
		links, err := listLinks()
		must(t, err)
		routes, err := ownRoutes()
		must(t, err)
		entries, err := os.ReadDir(netnsDir)
		must(t, err)
		out := []string{}
		for _, link := range links {
			out = append(out, link.Attrs().Name)
		}
		for r := range routes {
			out = append(out, fmt.Sprint(r))
		}
		slices.Sort(out)
		return fmt.Sprint(out, entries)
	}
	before := nothing()
	must(t, k.Ensure(testSpec("u1")))
	for range 2 {
		must(t, k.Remove(IDOf("u1")))
	}
	if after := nothing(); after != before {
		t.Errorf("left:\n%s\nbefore:\n%s", after, before)
	}
}
