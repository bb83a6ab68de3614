package cli

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/inspect/connect"
)

// showPorts prints the interfaces of a node's bridges.
func showPorts(ctx context.Context, tunnel *connect.Tunnel, format string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ports, err := tunnel.SwitchPorts(ctx)
	if err != nil {
		return err
	}
	if format == formatJSON {
		return printJSON(out, "ports", ports)
	}
	return printTable(out, "ports", func(text *strings.Builder) {
		lines := [][]string{{"BRIDGE", "PORT", "INTERFACE", "TYPE", "OFPORT", "IFACE-ID", "POD", "ERROR"}}
		for _, p := range ports {
			number := ""
			if p.OpenFlow != 0 {
				number = strconv.FormatInt(p.OpenFlow, 10)
			}
			lines = append(lines, []string{p.Bridge, p.Port, p.Interface, p.Type, number, p.Iface, p.Pod, p.Error})
		}
		columns(text, lines...)
	})
}
