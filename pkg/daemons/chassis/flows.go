package chassis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

const (
	// integrationBridge is the bridge that ovn-controller fills.
	integrationBridge = "br-int"
	// restoreWait has ovs-vswitchd leave the kernel's flows as they are, and take no controllers, until it is gone.
	restoreWait = vswitch.KeyRestoreWait
	// savedFor is how old saved flows may be. The kernel forwards by them for that long anyway. Older flows would allow what has not
	// been judged for a long time.
	savedFor = 10 * time.Minute
	// openFlow has groups as ovn-controller makes them, and bundles.
	openFlow = "OpenFlow15"
)

// bridgeFlows is all that OpenFlow put into a bridge, as ovs-ofctl(8) reads it.
type bridgeFlows struct {
	Bridge string
	// Tunnel is the map of tunnel options, which flows refer to as tun_metadata.
	Tunnel string
	// Meters, Groups and Flows refer to each other: flows to groups, both to meters.
	Meters, Groups, Flows []string
}

// savedFlows is the content of the file.
type savedFlows struct {
	Time    time.Time
	Bridges []bridgeFlows
}

// flows keeps what is in the bridges over a restart of ovs-vswitchd. It does what ovs-ctl(8) does in a restart.
type flows struct{ dirs Directories }

// file lies in the run directory: a node that boots has no flows in its kernel, and none here.
func (f flows) file() string { return f.dirs.Switch + "/atoll-flows.json" }

// save saves what is in the bridges. What fails is logged: ovs-vswitchd ends all the same.
func (f flows) save(ctx context.Context, log *slog.Logger) {
	sockets, err := filepath.Glob(f.dirs.Switch + "/*.mgmt")
	saved := savedFlows{Time: time.Now()}
	count := 0
	for _, socket := range sockets {
		b := bridgeFlows{Bridge: strings.TrimSuffix(filepath.Base(socket), ".mgmt")}
		if one := f.read(ctx, &b); one != nil {
			err = errors.Join(err, one)
			continue
		}
		count += len(b.Flows)
		saved.Bridges = append(saved.Bridges, b)
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(saved); err == nil {
			err = replaceFile(f.file(), text)
		}
	}
	if err != nil {
		log.Error("flows are not saved: until ovn-controller has written them again, the next ovs-vswitchd drops what is new to it", "error", err)
		return
	}
	log.Info("flows are saved", "flows", count, "bridges", len(saved.Bridges))
}

func (f flows) read(ctx context.Context, b *bridgeFlows) error {
	for _, part := range []struct {
		into  *[]string
		words []string
	}{
		{&b.Meters, []string{"dump-meters"}},
		{&b.Groups, []string{"dump-groups"}},
		{&b.Flows, []string{"dump-flows", "--no-names", "--no-stats"}},
	} {
		printed, err := f.ofctl(ctx, b.Bridge, part.words...)
		if err != nil {
			return err
		}
		*part.into = restorable(printed)
	}
	b.Meters = metersOf(b.Meters)
	printed, err := f.ofctl(ctx, b.Bridge, "dump-tlv-map")
	b.Tunnel = tunnelMap(printed)
	return err
}

// ofctl runs ovs-ofctl(8): its words, the bridge, and what follows.
func (f flows) ofctl(ctx context.Context, bridge string, words ...string) (string, error) {
	arguments := append([]string{"-O", openFlow, "--timeout=10"}, words...)
	return f.dirs.run(ctx, "ovs-ofctl", append(arguments, f.target(bridge))...)
}

func (f flows) target(bridge string) string { return "unix:" + f.dirs.Switch + "/" + bridge + ".mgmt" }

// restorable are the lines of a dump that ovs-ofctl reads again. It prints the names of IGMP's fields and does not read them.
func restorable(dump string) (out []string) {
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "OFPST_") || strings.HasPrefix(line, "NXST_") {
			continue
		}
		line = strings.ReplaceAll(line, "igmp_type", "tp_src")
		line = strings.ReplaceAll(line, "igmp_code", "tp_dst")
		out = append(out, strings.ReplaceAll(line, "igmp", "ip,nw_proto=2"))
	}
	return out
}

// metersOf joins each meter with its bands, which a dump has on lines of their own.
func metersOf(dump []string) (out []string) {
	for _, line := range dump {
		if strings.HasPrefix(line, "meter=") || len(out) == 0 {
			out = append(out, line)
		} else {
			out[len(out)-1] += " " + line
		}
	}
	return out
}

// tunnelMap is the argument of add-tlv-map that makes the map of a dump; empty for an empty one. (Lines of it: 0x102 0x80 4
// tun_metadata0.)
func tunnelMap(dump string) string {
	var out []string
	for line := range strings.Lines(dump) {
		if f := strings.Fields(line); len(f) == 4 && strings.HasPrefix(f[0], "0x") {
			out = append(out, fmt.Sprintf("{class=%s,type=%s,len=%s}->%s", f[0], f[1], f[2], f[3]))
		}
	}
	return strings.Join(out, ",")
}

// hold has the next ovs-vswitchd wait for its flows, if they are there, and not otherwise.
func (f flows) hold(ctx context.Context, log *slog.Logger) error {
	saved, err := f.load()
	var reason string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "none were saved"
	case err != nil:
		reason = err.Error()
	default:
		reason, err = f.unfit(ctx, saved, time.Now())
		if err != nil {
			return err
		}
	}
	if reason != "" {
		log.Info("ovs-vswitchd starts without saved flows", "reason", reason)
		return f.release(ctx)
	}
	words := []string{"set", databaseName, ".", "other_config:" + restoreWait + "=true"}
	// Had the agent taken ovn-controller away from the socket, it would come before the flows do.
	remote, err := f.remote(ctx)
	if err != nil {
		return err
	}
	if remote == "" {
		words = append(words, "external_ids:"+vswitch.KeyBridgeRemote+"="+strconv.Quote(vswitch.RemoteOf(integrationBridge)))
	}
	_, err = f.dirs.vsctl(ctx, words...)
	return err
}

// remote is by which socket ovn-controller comes to its bridge; empty for the bridge's own.
func (f flows) remote(ctx context.Context) (string, error) {
	printed, err := f.dirs.vsctl(ctx, "--if-exists", "get", databaseName, ".", "external_ids:"+vswitch.KeyBridgeRemote)
	return strings.Trim(printed, `"`), err
}

// unfit says why saved flows are not to be used; empty when they are.
func (f flows) unfit(ctx context.Context, saved savedFlows, now time.Time) (string, error) {
	if age := now.Sub(saved.Time); age > savedFor || age < 0 {
		return fmt.Sprintf("they are of %s", saved.Time.Format(time.RFC3339)), nil
	}
	bridges, err := f.dirs.vsctl(ctx, "list-br")
	if err != nil {
		return "", err
	}
	known := strings.Fields(bridges)
	for _, b := range saved.Bridges {
		if !slices.Contains(known, b.Bridge) {
			return "the database has no bridge " + b.Bridge + " any more", nil
		}
	}
	// By a bridge's own socket a controller can come at any time, even before the flows: these would then take the place of newer ones. By a
	// socket that stands in the database it cannot come before.
	remote, err := f.remote(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(known, integrationBridge) {
		return "there is no " + integrationBridge, nil
	}
	targets, err := f.dirs.vsctl(ctx, "get-controller", integrationBridge)
	if err != nil {
		return "", err
	}
	if !comesBy(remote, f.dirs.Switch, strings.Fields(targets)) {
		return "ovn-controller comes by the bridge's own socket (the agent's --max-controller-rate=0)", nil
	}
	return "", nil
}

// comesBy tells whether what ovn-controller connects to is one of the targets on which a bridge listens, by order of the
// database. When it is told nothing and the agent's socket is one of them, it is about to come there: the agent has taken it away
// for as long as no switch answers.
func comesBy(remote, dir string, targets []string) bool {
	if remote == "" {
		remote = vswitch.RemoteOf(integrationBridge)
	}
	path, unix := strings.CutPrefix(remote, "unix:")
	if !unix {
		return false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path) // as Open vSwitch reads such a name
	}
	return slices.Contains(targets, "punix:"+path)
}

// restore gives the bridges their flows, if ovs-vswitchd waits for them, and has it go on.
func (f flows) restore(ctx context.Context, log *slog.Logger) error {
	waits, err := f.dirs.vsctl(ctx, "--if-exists", "get", databaseName, ".", "other_config:"+restoreWait)
	if err != nil || strings.Trim(waits, `"`) != "true" {
		return err
	}
	begin := time.Now()
	saved, err := f.load()
	for _, b := range saved.Bridges {
		if err == nil {
			err = f.write(ctx, b)
		}
	}
	if err != nil {
		log.Error("saved flows are not restored: ovs-vswitchd drops what is new to it until ovn-controller has written them again", "error", err)
	} else {
		log.Info("flows are restored", "took", time.Since(begin).Round(time.Millisecond))
	}
	return f.release(ctx)
}

func (f flows) write(ctx context.Context, b bridgeFlows) error {
	// The bridge is there soon after ovs-vswitchd answers.
	if err := await(ctx, func() error { _, err := f.ofctl(ctx, b.Bridge, "dump-tlv-map"); return err }); err != nil {
		return fmt.Errorf("wait for bridge %s: %w", b.Bridge, err)
	}
	dir, err := os.MkdirTemp(f.dirs.Switch, "atoll-flows")
	if err != nil {
		return fmt.Errorf("make directory for flows: %w", err)
	}
	defer os.RemoveAll(dir)
	add := func(words ...string) error {
		_, err := f.dirs.run(ctx, "ovs-ofctl", append([]string{"-O", openFlow, "--timeout=20"}, words...)...)
		return err
	}
	if b.Tunnel != "" {
		if err := add("add-tlv-map", f.target(b.Bridge), b.Tunnel); err != nil {
			return err
		}
	}
	for _, meter := range b.Meters {
		if err := add("add-meter", f.target(b.Bridge), meter); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		verb  string
		lines []string
	}{{"add-groups", b.Groups}, {"replace-flows", b.Flows}} {
		file := filepath.Join(dir, part.verb)
		if err := os.WriteFile(file, []byte(strings.Join(part.lines, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("write flows: %w", err)
		}
		if err := add("--bundle", part.verb, f.target(b.Bridge), file); err != nil {
			return err
		}
	}
	return nil
}

// release has ovs-vswitchd go by its flows. What was saved was for one start.
func (f flows) release(ctx context.Context) error {
	if err := os.Remove(f.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove saved flows: %w", err)
	}
	_, err := f.dirs.vsctl(ctx, "remove", databaseName, ".", "other_config", restoreWait)
	return err
}

func (f flows) load() (saved savedFlows, err error) {
	text, err := os.ReadFile(f.file())
	if err != nil {
		return saved, fmt.Errorf("read saved flows: %w", err)
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return saved, fmt.Errorf("read saved flows: %w", err)
	}
	return saved, nil
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(name string, text []byte) error {
	fresh := name + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", fresh, err)
	}
	if err := os.Rename(fresh, name); err != nil {
		return fmt.Errorf("put %s in place: %w", name, err)
	}
	return nil
}
