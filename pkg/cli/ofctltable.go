package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// maxFlow bounds a flow's line, in bytes.
const maxFlow = 1 << 20

// bridgeFlow is one flow of a bridge, as ovs-ofctl prints it.
type bridgeFlow struct {
	Table    int    `json:"table"`
	Priority int    `json:"priority"`
	Packets  uint64 `json:"packets"`
	Bytes    uint64 `json:"bytes"`
	// Cookie is, of OVN's, the beginning of the UUID of the row that it is made of.
	Cookie  string `json:"cookie"`
	Match   string `json:"match"`
	Actions string `json:"actions"`
}

// defaultPriority is that of a flow of which none is printed. (ovs-ofctl(8).)
const defaultPriority = 32768

// parseBridgeFlow reads a line of ovs-ofctl dump-flows: statistics, each with ", " after it, the match, whose fields have no
// space between them, and the actions. The Flow of go-openvswitch knows neither all actions that OVN writes nor how to leave them
// as they are.
func parseBridgeFlow(line string) (bridgeFlow, error) {
	f := bridgeFlow{Priority: defaultPriority}
	left, actions, both := strings.Cut(line, "actions=")
	if !both {
		return f, fmt.Errorf("a flow without actions: %q", line)
	}
	f.Actions = strings.TrimSpace(actions)
	parts := strings.Split(strings.TrimSuffix(strings.TrimSpace(left), ","), ", ")
	for i, part := range parts {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		var err error
		switch key {
		case "cookie":
			f.Cookie = value
		case "table":
			f.Table, err = strconv.Atoi(value)
		case "n_packets":
			f.Packets, err = strconv.ParseUint(value, 10, 64)
		case "n_bytes":
			f.Bytes, err = strconv.ParseUint(value, 10, 64)
		case "duration", "idle_age", "hard_age", "idle_timeout", "hard_timeout", "importance",
			"send_flow_rem", "reset_counts", "no_packet_counts", "no_byte_counts":
		default:
			// The match is what is last; a name in it may have a comma.
			return f, f.readMatch(strings.TrimSpace(strings.Join(parts[i:], ", ")))
		}
		if err != nil {
			return f, fmt.Errorf("read flow %q: %w", line, err)
		}
	}
	return f, nil
}

// readMatch reads the match, before which its priority may stand.
func (f *bridgeFlow) readMatch(text string) error {
	rest, has := strings.CutPrefix(text, "priority=")
	if !has {
		f.Match = text
		return nil
	}
	number, match, _ := strings.Cut(rest, ",")
	f.Match = match
	var err error
	if f.Priority, err = strconv.Atoi(number); err != nil {
		return fmt.Errorf("read priority: %w", err)
	}
	return nil
}

// printFlowTable prints what ovs-ofctl dump-flows has printed.
func printFlowTable(from io.Reader, format string, out io.Writer) error {
	flows := []bridgeFlow{}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxFlow)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "NXST_") || strings.HasPrefix(line, "OFPST_") {
			continue
		}
		f, err := parseBridgeFlow(line)
		if err != nil {
			return err
		}
		flows = append(flows, f)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read flows: %w", err)
	}
	if format == formatJSON {
		return printJSON(out, "flows", flows)
	}
	return printTable(out, "flows", func(text *strings.Builder) {
		rows := [][]string{{"TABLE", "PRIORITY", "PACKETS", "BYTES", "COOKIE", "MATCH", "ACTIONS"}}
		for _, f := range flows {
			rows = append(rows, []string{
				strconv.Itoa(f.Table), strconv.Itoa(f.Priority), strconv.FormatUint(f.Packets, 10), strconv.FormatUint(f.Bytes, 10), f.Cookie, f.Match,
				f.Actions,
			})
		}
		cells(text, format, rows)
	})
}

// printPortCounts prints what ovs-ofctl dump-ports has printed.
func printPortCounts(printed []byte, bridge, format string, out io.Writer) error {
	client := ovs.New(ovs.Exec(func(string, ...string) ([]byte, error) { return printed, nil }))
	ports, err := client.OpenFlow.DumpPorts(bridge)
	if err != nil {
		return fmt.Errorf("read counts of ports: %w", err)
	}
	if format == formatJSON {
		return printJSON(out, "ports", ports)
	}
	return printTable(out, "ports", func(text *strings.Builder) {
		rows := [][]string{{"PORT", "RX PACKETS", "RX BYTES", "RX DROPPED", "RX ERRORS", "TX PACKETS", "TX BYTES", "TX DROPPED", "TX ERRORS"}}
		for _, p := range ports {
			name := strconv.Itoa(p.PortID)
			if p.PortID == ovs.PortLOCAL {
				name = "LOCAL"
			}
			row := []string{name}
			for _, n := range []uint64{
				p.Received.Packets, p.Received.Bytes, p.Received.Dropped, p.Received.Errors, p.Transmitted.Packets, p.Transmitted.Bytes,
				p.Transmitted.Dropped, p.Transmitted.Errors,
			} {
				row = append(row, strconv.FormatUint(n, 10))
			}
			rows = append(rows, row)
		}
		cells(text, format, rows)
	})
}

// cells writes rows of cells below one another; what is long is cut unless a wide table is asked for.
func cells(text *strings.Builder, format string, rows [][]string) {
	if format != formatWide {
		columns(text, rows...)
		return
	}
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i, c := range row {
			row[i] = cmp.Or(snapshot.Printable(c), nothing)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
}
