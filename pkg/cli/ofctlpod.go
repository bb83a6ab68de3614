package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
)

// firstGroup is the first key of a multicast group: keys of ports are below. (ovn-architecture(7), logical egress port field.)
const firstGroup = 0x8000

// logicalPort is a port of a logical switch by the numbers that a chassis' flows have for both: metadata, and reg14 or reg15.
// (ovn-architecture(7).)
type logicalPort struct{ datapath, port uint64 }

// podPorts are the ports of a pod on a bridge.
type podPorts struct {
	pod    model.PodKey
	bridge string
	// names are the ports' numbers for OpenFlow and their names, by which flows may have them.
	names []string
	// words say them to a person.
	words []string
	// keys are what they are in OVN; none when no flow takes packets in from them.
	keys []logicalPort
}

// portsOf finds the pod's ports in the switch's database, by its UID where that is known: names are given again.
func portsOf(ctx context.Context, q connect.TunnelQuery, pod client.PodPlace) (podPorts, error) {
	p := podPorts{pod: pod.Key, bridge: q.Bridge}
	q.Socket, q.Bridge, q.Write = api.NodeDatabase, "", false
	tunnel, err := connect.OpenTunnel(ctx, q)
	if err != nil {
		return p, err
	}
	defer tunnel.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := tunnel.SwitchPorts(ctx)
	if err != nil {
		return p, err
	}
	for _, s := range all {
		if s.Bridge != p.bridge || s.Pod != pod.Key.String() || pod.UID != "" && s.PodUID != pod.UID || s.OpenFlow <= 0 {
			continue
		}
		number := strconv.FormatInt(s.OpenFlow, 10)
		p.names = append(p.names, number, s.Interface)
		p.words = append(p.words, number+" ("+s.Interface+")")
	}
	if len(p.names) == 0 {
		return p, fmt.Errorf(
			"pod %s has no port on bridge %s of node %s, so that there is nothing to keep. Next: atoll pod %s; or --all, for all of the bridge",
			p.pod, p.bridge, q.Node, p.pod)
	}
	return p, nil
}

// readKeys asks the bridge's first table what the ports are in OVN. ask runs ovs-ofctl.
func (p *podPorts) readKeys(ask func(args ...string) ([]byte, error)) error {
	for i := 0; i < len(p.names); i += 2 {
		printed, err := ask(dumpFlows, p.bridge, "table=0,in_port="+p.names[i])
		if err != nil {
			return fmt.Errorf("ask which logical port is behind port %s: %w", p.names[i], err)
		}
		for line := range strings.Lines(string(printed)) {
			if key, has := loadedKeys(line); has && !slices.Contains(p.keys, key) {
				p.keys = append(p.keys, key)
			}
		}
	}
	return nil
}

// Actions by which ovn-controller says which logical port a packet came in by. (The second form is that of OpenFlow 1.5.)
var (
	loadsDatapath = regexp.MustCompile(`(?:load:(0x[0-9a-f]+)->OXM_OF_METADATA\[\]|set_field:(0x[0-9a-f]+)->metadata\b)`)
	loadsPort     = regexp.MustCompile(`(?:load:(0x[0-9a-f]+)->NXM_NX_REG14\[\]|set_field:(0x[0-9a-f]+)->reg14\b)`)
)

func loadedKeys(line string) (logicalPort, bool) {
	number := func(of *regexp.Regexp) (uint64, bool) {
		m := of.FindStringSubmatch(line)
		if m == nil {
			return 0, false
		}
		n, err := strconv.ParseUint(m[1]+m[2], 0, 64)
		return n, err == nil
	}
	datapath, has := number(loadsDatapath)
	port, hasPort := number(loadsPort)
	return logicalPort{datapath, port}, has && hasPort
}

// outputs finds ports that an action sends to.
var outputs = regexp.MustCompile(`\b(?:output:|output\(port=|enqueue:)"?([^",:()]+)`)

// concerns says whether a flow is kept: it takes packets in from one of the ports or sends to it, or is a flow of their logical
// switch that is not for another port alone.
func (p *podPorts) concerns(f bridgeFlow) bool {
	for _, m := range outputs.FindAllStringSubmatch(f.Actions, -1) {
		if slices.Contains(p.names, m[1]) {
			return true
		}
	}
	fields := matched(f.Match)
	if from, has := fields["in_port"]; has {
		return slices.Contains(p.names, strings.Trim(from, `"`))
	}
	datapath, has := fields["metadata"]
	if !has {
		return false
	}
	return slices.ContainsFunc(p.keys, func(k logicalPort) bool {
		if !covers(datapath, k.datapath) {
			return false
		}
		from, hasFrom := fields["reg14"]
		to, hasTo := fields["reg15"]
		return !hasFrom && !hasTo || hasFrom && covers(from, k.port) || hasTo && (covers(to, k.port) || isGroup(to) && !hasFrom)
	})
}

// matched are the fields of a match with their values, as they are printed.
func matched(match string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(match, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	return fields
}

// covers reports whether a field's value, with or without a mask, matches a number. A value that is no number matches everything,
// so that nothing is hidden which is not understood.
func covers(value string, number uint64) bool {
	text, maskText, masked := strings.Cut(value, "/")
	want, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return true
	}
	mask := ^uint64(0)
	if masked {
		if mask, err = strconv.ParseUint(maskText, 0, 64); err != nil {
			return true
		}
	}
	return want&mask == number&mask
}

// isGroup says whether a value of reg15 is a multicast group's.
func isGroup(value string) bool {
	n, err := strconv.ParseUint(value, 0, 64)
	return err == nil && n >= firstGroup
}
